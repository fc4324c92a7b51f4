/* foreign.c: what a file is that is no ONNX model. People hand over what a download or another program left them; the
 * first byte that does not fit says nothing about that.
 *
 * Input: the bytes of a file. Output: words for an error, or NULL where it may be a model. Invariant: no model is
 * taken for something else: each kind is told by bytes with which the wire format's first field of one cannot begin,
 * or by a signature of eight bytes and more. */
#include "onnx/onnx_int.h"

struct signature {
	int at;
	const char *bytes;
	int n;
	const char *what;
};

#define SIGNATURE(AT, BYTES, WHAT)                                                                                     \
	{                                                                                                              \
		AT, BYTES, sizeof(BYTES) - 1, WHAT                                                                     \
	}

static const struct signature signatures[] = {
	SIGNATURE(0, "version https://git-lfs",
		  "a pointer of Git LFS, which stands for the model; `git lfs pull` fetches it"),
	SIGNATURE(0, "PK\3\4", "a zip archive, as torch.save writes; torch.onnx.export makes models"),
	SIGNATURE(0, "\x80\2\x8a\n", "a file of torch.save; torch.onnx.export makes models"),
	SIGNATURE(0, "\x80\2}", "a Python pickle"),
	SIGNATURE(0, "\x80\3", "a Python pickle"),
	SIGNATURE(0, "\x80\4\x95", "a Python pickle"),
	SIGNATURE(0, "\x80\5\x95", "a Python pickle"),
	SIGNATURE(4, "TFL3", "a model of TensorFlow Lite"),
	SIGNATURE(4, "ORTM", "a model in ONNX Runtime's own format (.ort); the .onnx file it was made of is needed"),
	SIGNATURE(0, "GGUF", "a GGUF file"),
	SIGNATURE(8, "{\"", "a file of safetensors, which holds weights and no graph"),
	SIGNATURE(0, "\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes"),
	SIGNATURE(0, "\x1f\x8b\x08", "a gzip archive; it must be unpacked"),
	SIGNATURE(0, "\x93NUMPY", "an array of numpy"),
	SIGNATURE(0,
		  "\x7f"
		  "ELF",
		  "a program or library"),
	SIGNATURE(0, "<!DOCTYPE", "a web page: the download failed or the address is not the file's"),
	SIGNATURE(0, "<!doctype", "a web page: the download failed or the address is not the file's"),
	SIGNATURE(0, "<html", "a web page: the download failed or the address is not the file's"),
};

static bool is_text(const uint8_t *at, size_t size)
{
	const size_t n = size < 256 ? size : 256;
	for (size_t i = 0; i < n; i++)
		if ((at[i] < ' ' && !(at[i] >= '\t' && at[i] <= '\r')) || at[i] == 127)
			return false;
	return true;
}

/* Can a model begin with this byte? A field of ModelProto with its wire type; those beyond 15 have two bytes. */
static bool begins_model(uint8_t first)
{
	static const uint8_t fields[] = {0x08, 0x12, 0x1a, 0x22, 0x28, 0x32, 0x3a, 0x42, 0x72, 0xa2, 0xca, 0xd2};
	return memchr(fields, first, sizeof(fields)) != NULL;
}

const char *onnx_foreign(const uint8_t *at, size_t size)
{
	if (size == 0)
		return "an empty file";
	if (begins_model(at[0]))
		return NULL;
	for (int i = 0; i < TW_COUNT(signatures); i++) {
		const struct signature *s = &signatures[i];
		if (size >= (size_t)(s->at + s->n) && memcmp(at + s->at, s->bytes, (size_t)s->n) == 0)
			return s->what;
	}
	return is_text(at, size) ? "a text file" : NULL;
}
