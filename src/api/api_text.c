/* Public interface: files of text. */
#include "api_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_TEXT = 64 << 20 };

char *tilewright_read_text(const char *path, tilewright_status *status)
{
	FILE *f = fopen(path, "rb");
	char *text = NULL;
	size_t n = 0, room = 0;
	*status = TILEWRIGHT_OK;
	while (f && n <= MOST_TEXT) {
		if (n + 1 >= room) {
			char *more = realloc(text, room = room ? 2 * room : 1 << 16);
			if (more == NULL) {
				*status = API_FAIL(TW_ERR_MEMORY, "no memory for %.500s", path);
				break;
			}
			text = more;
		}
		const size_t got = fread(text + n, 1, room - n - 1, f);
		n += got;
		if (got == 0)
			break;
	}
	if (!f || ferror(f))
		*status = API_FAIL(TW_ERR_IO, "cannot read %.500s: %s", path, strerror(errno));
	else if (*status == TILEWRIGHT_OK && n > MOST_TEXT)
		*status = API_FAIL(TW_ERR_MODEL, "%.500s: the text is larger than %d MB", path, MOST_TEXT >> 20);
	else if (*status == TILEWRIGHT_OK && memchr(text, 0, n))
		*status = API_FAIL(TW_ERR_MODEL, "%.500s is no text: it holds a zero byte", path);
	if (f)
		fclose(f);
	if (*status != TILEWRIGHT_OK) {
		free(text);
		return NULL;
	}
	text[n] = '\0';
	return text;
}
