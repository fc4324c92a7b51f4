/* Public interface: what belongs to no object: version, errors, types, the machine, the cache. */
#include "api_int.h"

#include "target/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* The public numbers are the internal ones. */
#define SAME(public, internal) _Static_assert((int)(public) == (int)(internal), #public)
SAME(TILEWRIGHT_OK, TW_ERR_OK);
SAME(TILEWRIGHT_ERROR_USAGE, TW_ERR_USAGE);
SAME(TILEWRIGHT_ERROR_MODEL, TW_ERR_MODEL);
SAME(TILEWRIGHT_ERROR_UNSUPPORTED, TW_ERR_UNSUPPORTED);
SAME(TILEWRIGHT_ERROR_INPUT, TW_ERR_INPUT);
SAME(TILEWRIGHT_ERROR_IO, TW_ERR_IO);
SAME(TILEWRIGHT_ERROR_MEMORY, TW_ERR_MEMORY);
SAME(TILEWRIGHT_ERROR_TOOLCHAIN, TW_ERR_TOOLCHAIN);
SAME(TILEWRIGHT_ERROR_CANCELLED, TW_ERR_CANCELLED);
SAME(TILEWRIGHT_ERROR_INTERNAL, TW_ERR_INTERNAL);
SAME(TILEWRIGHT_ERROR_INTERNAL, TW_ERR_COUNT - 1);
SAME(TILEWRIGHT_MAX_RANK, TWRT_MAX_RANK);
SAME(TILEWRIGHT_F32, TWRT_F32);
SAME(TILEWRIGHT_U8, TWRT_U8);
SAME(TILEWRIGHT_I8, TWRT_I8);
SAME(TILEWRIGHT_U16, TWRT_U16);
SAME(TILEWRIGHT_I16, TWRT_I16);
SAME(TILEWRIGHT_I32, TWRT_I32);
SAME(TILEWRIGHT_I64, TWRT_I64);
SAME(TILEWRIGHT_BOOL, TWRT_BOOL);
SAME(TILEWRIGHT_F16, TWRT_F16);
SAME(TILEWRIGHT_F64, TWRT_F64);
SAME(TILEWRIGHT_U32, TWRT_U32);
SAME(TILEWRIGHT_U64, TWRT_U64);
SAME(TILEWRIGHT_BF16, TWRT_BF16);
SAME(TILEWRIGHT_F8E4M3FN, TWRT_F8E4M3FN);
SAME(TILEWRIGHT_F8E4M3FNUZ, TWRT_F8E4M3FNUZ);
SAME(TILEWRIGHT_F8E5M2, TWRT_F8E5M2);
SAME(TILEWRIGHT_F8E5M2FNUZ, TWRT_F8E5M2FNUZ);
SAME(TILEWRIGHT_F8E8M0, TWRT_F8E8M0);
SAME(TILEWRIGHT_LOG_ERROR, TW_LOG_ERROR);
SAME(TILEWRIGHT_LOG_WARNING, TW_LOG_WARNING);
SAME(TILEWRIGHT_LOG_INFO, TW_LOG_INFO);
SAME(TILEWRIGHT_LOG_DEBUG, TW_LOG_DEBUG);
/* rt knows instruction sets by number only: rt/code.c. */
SAME(0, TW_ISA_SCALAR);
SAME(1, TW_ISA_GENERIC);
SAME(2, TW_ISA_NEON);
SAME(3, TW_ISA_AVX2);
SAME(4, TW_ISA_AVX512);
SAME(5, TW_ISA_AVX512_VNNI);
SAME(6, TW_ISA_COUNT);

struct tw_error *tilewright_error_slot(void)
{
	static _Thread_local struct tw_error last;
	return &last;
}

tilewright_status tilewright_fail(enum tw_code code, const char *fmt, ...)
{
	char text[512];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	tw_error_set(tilewright_error_slot(), code, "%s", text);
	return (tilewright_status)code;
}

double tilewright_now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

const char *tilewright_version(void)
{
	return TW_VERSION;
}

const char *tilewright_last_error(void)
{
	return tilewright_error_slot()->text;
}

static bool known(tilewright_status status)
{
	return (int)status >= 0 && (int)status < TW_ERR_COUNT;
}

const char *tilewright_status_text(tilewright_status status)
{
	return known(status) ? tw_code_text((enum tw_code)status) : "unknown status";
}

int tilewright_status_exit(tilewright_status status)
{
	return known(status) ? tw_code_exit((enum tw_code)status) : 3;
}

const char *tilewright_type_name(tilewright_type type)
{
	return twrt_type_name((enum twrt_type)type);
}

int tilewright_type_bytes(tilewright_type type)
{
	return twrt_type_bytes((enum twrt_type)type);
}

char *tilewright_describe_machine(void)
{
	struct tw_error *e = tilewright_error_slot();
	char *machine = NULL, path[4096];
	if (tw_describe_machine(&machine, e) != TW_ERR_OK)
		return NULL;
	int entries = 0;
	struct tw_error none;
	const bool has_cache = twrt_cache_dir(path, sizeof(path), &none) == TW_ERR_OK;
	const int64_t bytes = has_cache ? twrt_cache_bytes(&entries) : 0;
	const size_t size = strlen(machine) + sizeof(path) + 200;
	char *text = malloc(size);
	if (text)
		snprintf(text, size, "%sthreads: %d\ncache: %s\ncached models: %d, %.1f MB\n", machine, twrt_cpus(),
			 has_cache ? path : none.text, entries, (double)bytes / 1e6);
	else
		tw_error_set(e, TW_ERR_MEMORY, "no memory");
	free(machine);
	return text;
}

char *tilewright_describe_space(const char *schedule)
{
	char *text = NULL;
	if (schedule == NULL)
		tilewright_fail(TW_ERR_USAGE, "no schedule template is named");
	else
		(void)tw_describe_space(schedule, &text, tilewright_error_slot());
	return text;
}

void tilewright_free_text(char *text)
{
	free(text);
}

tilewright_status tilewright_clear_cache(void)
{
	return (tilewright_status)twrt_cache_clear(tilewright_error_slot());
}
