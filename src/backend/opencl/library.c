/* library: the OpenCL library, found at run time. */
#include "backend/opencl/opencl_int.h"

#include <dlfcn.h>

enum tw_code opencl_load(struct opencl_library *cl, struct tw_error *e)
{
	static const char *const names[] = {"libOpenCL.so.1", "libOpenCL.so"};
	memset(cl, 0, sizeof(*cl));
	for (int i = 0; i < TW_COUNT(names) && !cl->handle; i++)
		cl->handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	if (!cl->handle) {
		tw_error_set(
			e, TW_ERR_TOOLCHAIN,
			"there is no OpenCL here: libOpenCL.so.1 cannot be loaded\nhint: install an ICD loader and a "
			"driver, on Debian: apt-get install ocl-icd-libopencl1 pocl-opencl-icd");
		return TW_ERR_TOOLCHAIN;
	}
#define F(name, result, arguments)                                                                                     \
	*(void **)&cl->name = dlsym(cl->handle, "cl" #name);                                                           \
	if (!cl->name) {                                                                                               \
		tw_error_set(e, TW_ERR_TOOLCHAIN, "the OpenCL library has no function cl" #name);                      \
		opencl_unload(cl);                                                                                     \
		return TW_ERR_TOOLCHAIN;                                                                               \
	}
	OPENCL_FUNCTIONS(F)
#undef F
	return TW_ERR_OK;
}

void opencl_unload(struct opencl_library *cl)
{
	if (cl->handle)
		dlclose(cl->handle);
	cl->handle = NULL;
}

const char *opencl_error_text(int32_t code)
{
	static const struct {
		int32_t code;
		const char *text;
	} texts[] = {
		{-1, "no device was found"},
		{-2, "the device is not available"},
		{-4, "the device has no memory left"},
		{-5, "the device has no resources left"},
		{-6, "out of memory"},
		{-11, "the source does not compile"},
		{-46, "there is no such kernel"},
		{-52, "a kernel lacks arguments"},
		{-54, "the device does not run blocks of so many threads"},
		{-55, "the device does not run blocks of this shape"},
		{-61, "a buffer has a size that the device cannot have"},
		{-1001, "no driver is installed"},
	};
	for (int i = 0; i < TW_COUNT(texts); i++)
		if (texts[i].code == code)
			return texts[i].text;
	return "it failed";
}
