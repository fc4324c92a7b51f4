/* Damaged texts and models, within one process, so that the sanitizers see thousands in a minute.
 *
 * Usage: fuzz KIND FILE.. [--count N] [--seconds N] [--first K] [--seed S] [--show]
 * KIND: program   the FILEs are texts of the language: parsed, checked, lowered and printed in C, CUDA C and OpenCL C
 *       operator  they are texts of the operators of examples/custom_op's model, NAME.tw each: one is damaged, the model lowered
 *       onnx      they are models: imported, checked and lowered to C text; no C compiler runs
 *
 * Case K of a seed is always the same: one of the FILEs with one to four faults: words exchanged, removed, doubled, taken from
 * another FILE, numbers changed; in models bytes. Each case must end by itself with a status and a message; a crash names its
 * case (--first K --count 1 repeats it, --show prints it), more than SECONDS for one is a failure.
 * The last line is "N passed, N failed". */
#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "compile/compile_int.h"
#include "tilewright.h"

enum { SECONDS = 60, MOST_FILES = 1024, MOST_BYTES = 1 << 20 };

#if defined(__SANITIZE_ADDRESS__)
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "abort_on_error=1:handle_abort=0"; /* so that on_fault names the case */
}
#endif

struct text {
	char *at;
	size_t n;
};

struct fuzz {
	struct text files[MOST_FILES];
	char names[MOST_FILES][64]; /* "dir/NAME.tw": NAME */
	int nfiles;
	int chosen; /* the file that is damaged */
	uint64_t state;
	struct text model; /* that gets operators */
};

static volatile long long current; /* the case at hand, for the handler of signals */

static void on_fault(int signal)
{
	char words[64] = "fault in case ";
	size_t n = strlen(words);
	char digits[24];
	int k = 0;
	long long x = current;
	do
		digits[k++] = (char)('0' + x % 10);
	while ((x /= 10) > 0);
	while (k > 0)
		words[n++] = digits[--k];
	words[n++] = signal == SIGALRM ? '!' : '.';
	words[n++] = '\n';
	if (write(STDOUT_FILENO, words, n) < 0)
		_exit(4);
	_exit(3);
}

static uint64_t next(struct fuzz *z)
{
	z->state += 0x9e3779b97f4a7c15u;
	uint64_t x = z->state;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static size_t below(struct fuzz *z, size_t n)
{
	return n ? (size_t)(next(z) % n) : 0;
}

static bool read_file(const char *path, struct text *t)
{
	FILE *f = fopen(path, "rb");
	t->at = malloc(MOST_BYTES + 1);
	t->n = f && t->at ? fread(t->at, 1, MOST_BYTES, f) : 0;
	if (f)
		fclose(f);
	if (t->n == 0) {
		free(t->at);
		return false;
	}
	t->at[t->n] = '\0';
	return true;
}

/* ---- damage ---- */

/* bytes [at, at + old) become new_n bytes of `new` */
static void splice(struct text *t, size_t at, size_t old, const char *new, size_t new_n)
{
	if (t->n - old + new_n > MOST_BYTES)
		return;
	char *copy = malloc(new_n + 1); /* it may lie in t */
	if (!copy)
		exit(3);
	memcpy(copy, new, new_n);
	memmove(t->at + at + new_n, t->at + at + old, t->n - at - old);
	memcpy(t->at + at, copy, new_n);
	t->n += new_n - old;
	t->at[t->n] = '\0';
	free(copy);
}

static bool in_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* A word, a number, a sign: where one begins near a random place, and its length. */
static size_t word_of(struct fuzz *z, const struct text *t, size_t *length)
{
	size_t at = below(z, t->n);
	while (at + 1 < t->n && isspace((unsigned char)t->at[at]))
		at++;
	while (at > 0 && in_word(t->at[at]) && in_word(t->at[at - 1]))
		at--;
	*length = at < t->n;
	while (at + *length < t->n && in_word(t->at[at]) && in_word(t->at[at + *length]))
		++*length;
	return at;
}

static void damage_words(struct fuzz *z, struct text *t)
{
	static const char *const odd[] = {"0",
					  "1",
					  "-1",
					  "2",
					  "7",
					  "16",
					  "65536",
					  "9223372036854775807",
					  "99999999999999999999",
					  "1e999",
					  "nan",
					  "inf",
					  "(",
					  ")",
					  "{",
					  "}",
					  "[",
					  "]",
					  ",",
					  ":",
					  ";",
					  "=",
					  "+",
					  "*",
					  "/",
					  "%",
					  "<",
					  "f32",
					  "i64",
					  "f16",
					  "bool",
					  "i4",
					  "for",
					  "if",
					  "let",
					  "core",
					  "lane",
					  "block",
					  "\"",
					  "#",
					  "\n",
					  "..",
					  "?",
					  "define",
					  "program"};
	size_t n, m;
	const size_t at = word_of(z, t, &n);
	const struct text *other = &z->files[below(z, (size_t)z->nfiles)];
	switch (below(z, 7)) {
	case 0: {
		const char *word = odd[below(z, sizeof(odd) / sizeof(*odd))];
		splice(t, at, n, word, strlen(word));
		return;
	}
	case 1:
		splice(t, at, n, "", 0);
		return;
	case 2:
		splice(t, at, 0, t->at + at, n);
		return;
	case 3: { /* a word of another text */
		const size_t from = word_of(z, other, &m);
		splice(t, at, n, other->at + from, m);
		return;
	}
	case 4: { /* a word of its own */
		const size_t from = word_of(z, t, &m);
		splice(t, at, n, t->at + from, m);
		return;
	}
	case 5: { /* a line more, or fewer */
		size_t from = at, to = at;
		while (from > 0 && t->at[from - 1] != '\n')
			from--;
		while (to < t->n && t->at[to] != '\n')
			to++;
		if (below(z, 2))
			splice(t, from, to - from, "", 0);
		else
			splice(t, from, 0, t->at + from, to - from);
		return;
	}
	default: { /* a character */
		const char c = (char)(below(z, 10) ? 32 + below(z, 95) : below(z, 256));
		splice(t, at, below(z, 2), &c, 1);
	}
	}
}

static void damage_bytes(struct fuzz *z, struct text *t)
{
	const size_t at = below(z, t->n), most = t->n - at;
	const struct text *other = &z->files[below(z, (size_t)z->nfiles)];
	switch (below(z, 6)) {
	case 0:
		t->at[at] = (char)next(z);
		return;
	case 1:
		t->at[at] ^= (char)(1 << below(z, 8));
		return;
	case 2:
		splice(t, at, below(z, most < 16 ? most + 1 : 16), "", 0);
		return;
	case 3:
		splice(t, at, 0, t->at + at, below(z, most < 64 ? most + 1 : 64));
		return;
	case 4: {
		const size_t from = below(z, other->n), rest = other->n - from;
		splice(t, at, 0, other->at + from, below(z, rest < 64 ? rest + 1 : 64));
		return;
	}
	default:
		splice(t, at, most < 10 ? most : below(z, 10), "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		       below(z, 11));
	}
}

/* ---- targets: NULL, or what is wrong ---- */

static const char *judge(tilewright_status s)
{
	if (s == TILEWRIGHT_ERROR_INTERNAL)
		return tilewright_last_error();
	return s && !tilewright_last_error()[0] ? "refused without a word" : NULL;
}

static const char *try_program(struct fuzz *z, const struct text *t)
{
	static const char *const targets[] = {"avx2", "scalar", "sm_80", "opencl"};
	(void)z;
	tilewright_program *p = NULL;
	const char *wrong = judge(tilewright_open_program("it.tw", t->at, NULL, &p));
	char *text = NULL;
	if (!p)
		return wrong;
	wrong = judge(tilewright_check_program(p, 1, &text));
	tilewright_free_text(text);
	for (int i = 0; !wrong && i < 4; i++) {
		text = NULL;
		wrong = judge(tilewright_show_program(p, "all", targets[i], NULL, &text));
		tilewright_free_text(text);
		text = NULL;
		if (!wrong)
			wrong = judge(tilewright_emit_program(p, targets[i], NULL, &text));
		tilewright_free_text(text);
	}
	tilewright_free_program(p);
	return wrong;
}

struct lowering {
	struct twc c;
	const struct text *model;
};

static void lower(void *arg)
{
	struct lowering *l = arg;
	tw_target_host(&l->c.target);
	twc_lowered(&l->c, l->model->at, (int64_t)l->model->n, ".");
}

static const char *lowered(const struct text *model, const struct tw_compile_options *o)
{
	static struct tw_error e;
	struct lowering l = {.c = {.o = o}, .model = model};
	l.c.arena = arena_new();
	const bool good = tw_try(&e, lower, &l);
	tw_onnx_close(&l.c.files);
	arena_free(l.c.arena);
	if (good)
		return NULL;
	return e.code == TW_ERR_INTERNAL ? e.text : e.text[0] ? NULL : "refused without a word";
}

static const char *try_onnx(struct fuzz *z, const struct text *t)
{
	static struct tw_error e;
	const struct tw_compile_options o = {0};
	char *table = NULL;
	(void)z;
	const enum tw_code code = tw_check(t->at, (int64_t)t->n, ".", &o, &table, &e);
	free(table);
	if (code == TW_ERR_INTERNAL)
		return e.text;
	return lowered(t, &o);
}

static const char *try_operator(struct fuzz *z, const struct text *t)
{
	static struct tw_operator_text texts[MOST_FILES];
	for (int i = 0; i < z->nfiles; i++)
		texts[i] = (struct tw_operator_text){
			.name = z->names[i], .file = z->names[i], .text = i == z->chosen ? t->at : z->files[i].at};
	const struct tw_compile_options o = {.noperators = z->nfiles, .operators = texts};
	return lowered(&z->model, &o);
}

static const struct kind {
	const char *name;
	void (*damage)(struct fuzz *z, struct text *t);
	const char *(*run)(struct fuzz *z, const struct text *t);
} kinds[] = {{"program", damage_words, try_program},
	     {"operator", damage_words, try_operator},
	     {"onnx", damage_bytes, try_onnx}};

static void take_file(struct fuzz *z, const char *path)
{
	if (z->nfiles == MOST_FILES || !read_file(path, &z->files[z->nfiles]))
		return;
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	snprintf(z->names[z->nfiles++], sizeof(z->names[0]), "%.*s", (int)strcspn(name, "."), name);
}

/* One file with faults. */
static void make_case(struct fuzz *z, const struct kind *kind, uint64_t seed, uint64_t k, struct text *t)
{
	z->state = seed * 0x2545f4914f6cdd1du + k;
	z->chosen = (int)below(z, (size_t)z->nfiles);
	const struct text *from = &z->files[z->chosen];
	memcpy(t->at, from->at, from->n + 1);
	t->n = from->n;
	for (size_t n = 1 + below(z, 4); n > 0 && t->n > 0; n--)
		kind->damage(z, t);
}

int main(int argc, char **argv)
{
	static struct fuzz z;
	const struct kind *kind = NULL;
	long long count = 1000, seconds = 0, first = 0, seed = 1, failed = 0, done = 0;
	bool show = false;
	for (int i = 0; i < TW_COUNT(kinds) && argc > 1; i++)
		kind = strcmp(argv[1], kinds[i].name) == 0 ? &kinds[i] : kind;
	const struct {
		const char *word;
		long long *value;
	} numbers[] = {{"--count", &count}, {"--seconds", &seconds}, {"--first", &first}, {"--seed", &seed}};
	for (int i = 2; i < argc; i++) {
		int k = 0;
		while (k < TW_COUNT(numbers) && strcmp(argv[i], numbers[k].word) != 0)
			k++;
		if (k < TW_COUNT(numbers) && i + 1 < argc)
			*numbers[k].value = atoll(argv[++i]);
		else if (strcmp(argv[i], "--show") == 0)
			show = true;
		else
			take_file(&z, argv[i]);
	}
	struct text t = {malloc(MOST_BYTES + 1), 0};
	if (!kind || z.nfiles == 0 || !read_file(TW_SOURCE_DIR "/examples/custom_op/model.onnx", &z.model) || !t.at) {
		fputs("usage: fuzz program|operator|onnx FILE.. [--count N] [--seconds N] [--first K] [--seed S] "
		      "[--show]\n",
		      stderr);
		return 2;
	}
	signal(SIGABRT, on_fault);
	signal(SIGSEGV, on_fault);
	signal(SIGALRM, on_fault);
	const time_t start = time(NULL);
	for (long long k = first; done < count && (seconds == 0 || time(NULL) - start < seconds); k++, done++) {
		current = k;
		make_case(&z, kind, (uint64_t)seed, (uint64_t)k, &t);
		if (show)
			fwrite(t.at, 1, t.n, stdout);
		fflush(stdout);
		alarm(SECONDS);
		const char *wrong = kind->run(&z, &t);
		failed += wrong != NULL;
		if (wrong)
			printf("FAIL case %lld of seed %lld: %s\n", k, seed, wrong);
	}
	alarm(0);
	free(t.at);
	printf("%lld passed, %lld failed\n", done - failed, failed);
	return failed > 0;
}
