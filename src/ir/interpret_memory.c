/* interpret_memory: tensors of a running program: shapes, layouts, mirrored registers, and every access with its
 * checks: bounds, uninitialised reads, second stores, foreign register elements, races between workers of one
 * barrier phase or of different blocks and core items, alignment of wide accesses on a GPU. Faults raise TW_ERR_INPUT
 * with the program, the place in its text, the statement and the index. */
#include <stdio.h>

#include "ir/interpret_int.h"
#include "ir/ir_int.h"

static void print_statement(struct tw_buf *b, struct tw_arena *a, const struct twir_stmt *s)
{
	switch (s->kind) {
	case TWIR_STORE:
		buf_printf(b, "%s[", s->u.store.tensor->name);
		for (int k = 0; k < s->u.store.n; k++)
			buf_printf(b, "%s%s", k ? ", " : "", twir_print_expr(a, s->u.store.index[k]));
		buf_printf(b, "] = %s", twir_print_expr(a, s->u.store.value));
		break;
	case TWIR_LET:
		buf_printf(b, "let %s = %s", s->u.let.var->name, twir_print_expr(a, s->u.let.value));
		break;
	case TWIR_DECLARE:
		buf_printf(b, "declaration of %s", s->u.declare.tensor->name);
		break;
	case TWIR_FOR:
		buf_printf(b, "for %s in repeat(%s)", s->u.loop.var->name, twir_print_expr(a, s->u.loop.extent));
		break;
	case TWIR_FORMAP:
		buf_printf(b, "for .. in %s", twir_print_map(a, s->u.formap.map));
		break;
	case TWIR_IF:
	case TWIR_SPECIALISE:
		buf_printf(b, "if %s", twir_print_expr(a, s->u.branch.cond));
		break;
	case TWIR_BARRIER:
		buf_printf(b, "barrier %s", twir_level_name(s->u.barrier.level));
		break;
	case TWIR_PREFETCH:
		buf_printf(b, "prefetch %s", s->u.prefetch.tensor->name);
		break;
	case TWIR_COMMIT:
	case TWIR_WAIT:
	case TWIR_MMA:
	case TWIR_INVOKE:
		buf_puts(b, twir_print_head(a, s));
		break;
	}
}

/* What to do about it; NULL: nothing is known. */
static const char *hint_for(const char *text)
{
	static const struct {
		const char *part, *hint;
	} hints[] = {
		{"out of bounds",
		 "bound the loop (within (M, N)), guard the access (i < N ? A[i] : 0.0), or state facts "
		 "of sizes (symbol N multiple 16;)"},
		{"before it was written", "store to every element that is read, and put a barrier between workers"},
		{"no barrier between", "put `barrier block;` between the two accesses"},
		{"stored a second time", "let each element have one worker and one turn; sums belong in registers"},
		{"is never stored", "every element of an output is stored once"},
		{"belongs to another worker", "the loop must hand out the elements as the tensor's mapping does"},
		{"asynchronous copy to it is under way",
		 "`commit; wait 0; barrier block;` between the copy and its readers"},
		{"a barrier is not reached by all",
		 "a barrier may not stand under a condition that differs between threads"},
		{"is not reached by all lanes", "move it out of the condition, and guard the accesses alone"},
		{"misaligned", "start at a multiple of the number of elements, or access them one by one"},
		{"another core item reads", "core items run in any order: read elements that others overwrite before, "
					    "in a program of its own"},
	};
	for (int i = 0; i < TW_COUNT(hints); i++)
		if (strstr(text, hints[i].part))
			return hints[i].hint;
	return NULL;
}

void twiri_fail(struct twiri_machine *x, const struct twir_stmt *s, const struct twir_expr *e, const char *fmt, ...)
{
	struct tw_buf b;
	char why[512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	if (x->report)
		*x->report =
			(struct twir_diagnostic){.severity = TWIR_ERROR,
						 .hint = hint_for(why),
						 .line = s ? s->line : 0,
						 .column = s ? s->column : 0,
						 .text = arena_strdup(x->report_arena, why),
						 .statement = s ? twir_print_head(x->report_arena, s) : NULL,
						 .within = arena_printf(x->report_arena, "%s '%s'", x->what, x->name)};
	buf_init(&b, x->arena);
	buf_printf(&b, "%s %s: ", x->what, x->name);
	if (s && s->line)
		buf_printf(&b, "line %d:%d: ", s->line, s->column);
	if (s)
		print_statement(&b, x->arena, s);
	if (e)
		buf_printf(&b, "%s%s", s ? ": in " : "in ", twir_print_expr(x->arena, e));
	tw_raise(TW_ERR_INPUT, "%.3000s%s%s", b.at, s || e ? ": " : "", why);
}

static void fail_at(struct twiri_machine *x, struct twiri_frame *f, const struct twiri_access *a, int lane,
		    const char *why)
{
	char index[256] = "";
	size_t used = 0;
	for (int k = 0; k < a->n && used < sizeof(index) - 32; k++) {
		const int64_t v =
			f->s[a->index[k] + (a->gather ? lane : 0)].i + (k == a->n - 1 && !a->gather ? lane : 0);
		used += (size_t)snprintf(index + used, sizeof(index) - used, "%s%lld", k ? ", " : "", (long long)v);
	}
	const bool scalar = a->n == 0;
	twiri_fail(x, a->stmt, a->expr, "%s%s%s%s: %s", f->t[a->tensor]->t->base, scalar ? "" : "[", index,
		   scalar ? "" : "]", why);
}

static int64_t checked_size(struct twiri_machine *x, const struct twir_tensor *t, int64_t size, bool bad)
{
	if (bad || size < 0)
		twiri_fail(x, NULL, NULL, "the size of tensor %s does not fit 64 bits", t->name);
	return size;
}

static void add_term(struct twiri_tensor *d, int dim, int64_t div, int64_t mod, int64_t stride)
{
	d->terms[d->nterms++] = (struct twiri_term){.dim = dim, .div = div < 1 ? 1 : div, .mod = mod, .stride = stride};
}

/* The term of a row, column or local factor in dimension k; what is inside has the extents `inner` and `size` places. */
static void add_factor_term(struct twiri_tensor *d, const struct twiri_layout *layout, int fct, int k,
			    const int64_t *inner, int64_t size)
{
	const int64_t *e = layout->extent[fct];
	const struct twir_swizzle *s = &layout->swizzle[fct];
	add_term(d, k, inner[k], fct > 0 || s->on ? e[k] : 0, size);
	if (s->on && s->dim == k) {
		struct twiri_term *t = &d->terms[d->nterms - 1];
		t->by = s->by;
		t->by_div = inner[s->by] < 1 ? 1 : inner[s->by];
		t->by_mod = fct > 0 ? e[s->by] : 0;
		t->by_shift = s->shift;
		t->swizzled = true;
	}
}

/* The last factor as strides: its extents are what the factors before it leave. Returns its storage. */
static int64_t describe_strides(struct twiri_machine *x, struct twiri_tensor *d, const struct twiri_layout *layout,
				int64_t *inner, bool *bad)
{
	const int last = layout->nfactors - 1;
	int64_t size = 1;
	for (int k = 0; k < d->rank; k++) {
		int64_t outer = 1;
		for (int n = 0; n < last; n++)
			outer = tw_mul64(outer, layout->extent[n][k], bad);
		const int64_t stride = layout->extent[last][k];
		if (stride < 0)
			twiri_fail(x, NULL, NULL, "tensor %s has a negative stride", d->t->name);
		inner[k] = outer < 1 ? 1 : d->shape[k] / outer + (d->shape[k] % outer != 0);
		add_term(d, k, 1, last > 0 ? inner[k] : 0, stride);
		size = tw_add64(size, tw_mul64(inner[k] > 0 ? inner[k] - 1 : 0, stride, bad), bad);
	}
	if (!*bad && d->t->scope != TWIR_IN && twir_strides_overlap(d->rank, inner, layout->extent[last]))
		twiri_fail(x, NULL, NULL, "the strides of tensor %s give two elements one place", d->t->base);
	return size;
}

static void describe_layout(struct twiri_machine *x, struct twiri_tensor *d, const struct twiri_layout *layout)
{
	bool bad = false;
	int64_t size = 1, inner[TWIR_MAX_RANK];
	int rows = layout->nfactors;
	for (int k = 0; k < d->rank; k++)
		inner[k] = 1;
	if (layout->kind[rows - 1] == TWIR_LAYOUT_STRIDES) {
		size = describe_strides(x, d, layout, inner, &bad);
		rows--;
	}
	for (int fct = rows - 1; fct >= 0; fct--) {
		const int64_t *e = layout->extent[fct];
		if (layout->kind[fct] == TWIR_LAYOUT_STRIDES)
			twiri_fail(x, NULL, NULL, "tensor %s: strides are the last factor of a layout", d->t->name);
		for (int n = d->rank - 1; n >= 0; n--) {
			const int k = layout->kind[fct] == TWIR_LAYOUT_COLUMN ? d->rank - 1 - n : n;
			if (e[k] < 0)
				twiri_fail(x, NULL, NULL, "the layout of tensor %s has the extent %lld", d->t->name,
					   (long long)e[k]);
			if (layout->kind[fct] == TWIR_LAYOUT_LOCAL)
				continue;
			if (e[k] != 1 || d->shape[k] > inner[k])
				add_factor_term(d, layout, fct, k, inner, size);
			size = tw_mul64(size, e[k], &bad);
		}
		for (int k = 0; k < d->rank; k++)
			inner[k] = tw_mul64(inner[k], e[k], &bad);
	}
	for (int k = 0; k < d->rank; k++)
		if (inner[k] < d->shape[k])
			twiri_fail(x, NULL, NULL,
				   "the layout of tensor %s covers %lld of %lld elements of dimension %d", d->t->name,
				   (long long)inner[k], (long long)d->shape[k], k);
	d->elements = checked_size(x, d->t, size, bad);
}

static void describe_plain(struct twiri_machine *x, struct twiri_tensor *d)
{
	bool bad = false, empty = false;
	int64_t size = 1;
	for (int k = d->rank - 1; k >= 0; k--) {
		add_term(d, k, 1, 0, size);
		size = tw_mul64(size, d->shape[k], &bad);
		empty |= d->shape[k] == 0; /* hides an overflow beside it */
	}
	d->elements = empty ? 0 : checked_size(x, d->t, size, bad);
}

void twiri_describe(struct twiri_machine *x, struct twiri_tensor *d, const struct twir_tensor *t, const int64_t *shape,
		    const struct twiri_layout *layout)
{
	d->t = t;
	d->type = t->type;
	d->lanes = t->lanes > 1 ? t->lanes : 1;
	d->bytes = twir_scalar_bytes(t->type) * d->lanes;
	d->packed = twir_is_packed(t->type) ? 8 / twir_scalar_bits(t->type) : 0;
	d->rank = t->rank;
	d->nterms = 0;
	for (int k = 0; k < d->rank; k++) {
		if (shape[k] < 0)
			twiri_fail(x, NULL, NULL, "tensor %s has the extent %lld", t->name, (long long)shape[k]);
		d->shape[k] = shape[k];
	}
	if (!d->terms)
		d->terms = ARENA_ARRAY(x->arena, struct twiri_term, d->rank * (layout->nfactors + 1));
	if (layout->nfactors)
		describe_layout(x, d, layout);
	else
		describe_plain(x, d);
	d->plain = true;
	for (int k = 0; k < d->nterms; k++)
		d->plain &= d->terms[k].div == 1 && d->terms[k].mod == 0 && !d->terms[k].swizzled;
}

static struct twiri_layout layout_of_param(struct twiri_machine *x, const struct twir_tensor *t)
{
	int n = 0;
	for (const struct twir_layout *l = t->layout; l; l = l->inner)
		n++;
	enum twir_layout_kind *kind = ARENA_ARRAY(x->arena, enum twir_layout_kind, n);
	int *rank = ARENA_ARRAY(x->arena, int, n);
	int64_t(*extent)[TWIR_MAX_RANK] = arena_alloc_array(x->arena, sizeof(*extent), n);
	struct twir_swizzle *swizzle = ARENA_ARRAY(x->arena, struct twir_swizzle, n);
	int k = 0;
	for (const struct twir_layout *l = t->layout; l; l = l->inner, k++) {
		kind[k] = l->kind;
		rank[k] = l->rank;
		swizzle[k] = l->swizzle;
		for (int d = 0; d < l->rank; d++)
			extent[k][d] = twir_eval_index(l->extent[d], x->binding);
	}
	return (struct twiri_layout){.nfactors = n,
				     .kind = kind,
				     .rank = rank,
				     .swizzle = swizzle,
				     .extent = (const int64_t(*)[TWIR_MAX_RANK])extent};
}

/* shape == NULL: the tensor's own, under the binding. */
void twiri_describe_param(struct twiri_machine *x, struct twiri_tensor *d, const struct twir_tensor *t,
			  const struct twir_data *data, const int64_t *shape, bool out)
{
	int64_t own[TWIR_MAX_RANK];
	for (int k = 0; k < t->rank && !shape; k++)
		own[k] = twir_eval_index(t->shape[k], x->binding);
	const struct twiri_layout layout = layout_of_param(x, t);
	twiri_describe(x, d, t, shape ? shape : own, &layout);
	if (d->elements > data->elements || (d->elements > 0 && !data->at))
		twiri_fail(x, NULL, NULL, "tensor %s needs %lld elements, the buffer has %lld", t->name,
			   (long long)d->elements, (long long)data->elements);
	d->data = data->at;
	d->readable = !out;
	d->writable = d->once = out;
	if (out)
		d->state = arena_alloc_array(x->arena, 1, d->elements);
	if (out && d->packed)
		d->owners = ARENA_ARRAY(x->arena, struct twiri_reader, (d->elements + d->packed - 1) / d->packed);
}

static struct twiri_mirror *make_mirror(struct twiri_machine *x, struct twiri_frame *f,
					const struct twiri_declare *decl, const struct twiri_tensor *d)
{
	const struct twiri_site *site = &x->sites.at[decl->site];
	struct twiri_mirror *m = ARENA_NEW(x->arena, struct twiri_mirror);
	m->elements = d->elements;
	memcpy(m->shape, d->shape, sizeof(m->shape));
	m->workers = twiri_site_workers(site, f->s);
	if (m->workers > 1 << 16 || m->elements > 1 << 24 || m->workers * m->elements > (int64_t)1 << 28)
		twiri_fail(x, decl->stmt, NULL, "too large for registers");
	m->owner = ARENA_ARRAY(x->arena, int32_t, m->elements);
	m->place = ARENA_ARRAY(x->arena, int32_t, m->elements);
	m->first = ARENA_ARRAY(x->arena, int32_t, m->workers);
	for (int64_t e = 0; e < m->elements; e++)
		m->owner[e] = -1;
	for (int64_t w = 0; w < m->workers; w++) {
		m->first[w] = (int32_t)w;
		int64_t count = 0;
		for (bool more = twiri_map_start(site, f->s, w); more; more = twiri_map_step(site, f->s), count++) {
			int64_t e = 0;
			for (int k = 0; k < d->rank; k++) {
				const int64_t v = f->s[site->var + k].i;
				if (v >= d->shape[k])
					twiri_fail(x, decl->stmt, NULL,
						   "the mapping goes beyond dimension %d of the tensor", k);
				e = e * d->shape[k] + v;
			}
			if (m->owner[e] < 0) {
				m->owner[e] = (int32_t)w;
				m->place[e] = (int32_t)count;
			} else if (count == 0) {
				m->first[w] =
					m->owner[e]; /* workers that differ in projected digits alone own the same */
			}
		}
		m->local = count > m->local ? count : m->local;
	}
	return m;
}

void twiri_declare(struct twiri_machine *x, struct twiri_frame *f, const struct twiri_declare *decl)
{
	struct twiri_tensor *d = f->t[decl->tensor];
	const struct twir_tensor *t = x->tensor_of.at[decl->tensor];
	const bool shared = t->scope == TWIR_SHARED;
	if (shared && x->gpu && d->serial == x->serial)
		return; /* another thread of the block came first */
	int64_t shape[TWIR_MAX_RANK], extent[8][TWIR_MAX_RANK];
	enum twir_layout_kind kind[8];
	struct twir_swizzle swizzle[8];
	int rank[8];
	for (int k = 0; k < t->rank; k++)
		shape[k] = f->s[decl->shape[k]].i;
	for (int n = 0; n < decl->nfactors; n++) {
		kind[n] = decl->factors[n].kind;
		rank[n] = decl->factors[n].rank;
		swizzle[n] = decl->factors[n].swizzle;
		for (int k = 0; k < rank[n]; k++)
			extent[n][k] = f->s[decl->factors[n].extent[k]].i;
	}
	const struct twiri_layout layout = {decl->nfactors, kind, rank, swizzle,
					    (const int64_t(*)[TWIR_MAX_RANK])extent};
	twiri_describe(x, d, t, shape, &layout);
	d->serial = x->serial;
	d->readable = d->writable = true;
	int64_t cells = d->elements;
	if (decl->site >= 0) {
		struct twiri_declare *own = &x->declares.at[decl - x->declares.at];
		if (!own->mirror || memcmp(own->mirror->shape, d->shape, sizeof(shape[0]) * (size_t)t->rank) != 0)
			own->mirror = make_mirror(x, f, decl, d);
		d->mirror = own->mirror;
		cells = d->mirror->local * (x->gpu ? 1 : d->mirror->workers);
	}
	if (cells > x->bytes / d->bytes)
		twiri_fail(x, decl->stmt, NULL, "%lld elements are too many for a local tensor", (long long)cells);
	twiri_step(x, cells / 64);
	const bool track = shared || (!x->gpu && !d->mirror);
	if (!d->state || cells > d->capacity) {
		d->capacity = cells;
		d->data = arena_alloc_array(x->arena, (size_t)d->bytes, cells);
		d->state = arena_alloc_array(x->arena, 1, cells);
		d->track = track ? ARENA_ARRAY(x->arena, struct twiri_track, cells) : NULL;
	} else {
		memset(d->state, 0, (size_t)cells);
		if (track)
			memset(d->track, 0, sizeof(*d->track) * (size_t)cells);
	}
}

static inline int64_t cell_of(const struct twiri_tensor *t, const int64_t *v)
{
	int64_t at = 0;
	if (t->plain)
		for (int k = 0; k < t->nterms; k++)
			at += v[t->terms[k].dim] * t->terms[k].stride;
	else
		for (int k = 0; k < t->nterms; k++) {
			const struct twiri_term *e = &t->terms[k];
			int64_t q = v[e->dim] / e->div;
			q = e->mod ? q % e->mod : q;
			if (e->swizzled) {
				const int64_t by = v[e->by] / e->by_div;
				q ^= ((e->by_mod ? by % e->by_mod : by) >> e->by_shift) % e->mod;
			}
			at += q * e->stride;
		}
	return at;
}

/* The storage element of lane l, checked. */
static int64_t offset_of(struct twiri_machine *x, struct twiri_frame *f, const struct twiri_access *a,
			 const struct twiri_tensor *t, int l)
{
	int64_t at = 0;
	if (a->gather || (a->n == 1 && t->rank != 1)) {
		at = f->s[a->index[0] + (a->gather ? l : 0)].i + (a->gather ? 0 : l);
		if ((uint64_t)at >= (uint64_t)t->elements)
			fail_at(x, f, a, l, "out of bounds");
		return at;
	}
	int64_t v[TWIR_MAX_RANK];
	for (int k = 0; k < a->n; k++) {
		v[k] = f->s[a->index[k]].i + (k == a->n - 1 ? l : 0);
		if ((uint64_t)v[k] >= (uint64_t)t->shape[k])
			fail_at(x, f, a, l, "out of bounds");
	}
	if (t->mirror) {
		for (int k = 0; k < a->n; k++)
			at = at * t->shape[k] + v[k];
		const struct twiri_mirror *m = t->mirror;
		if (a->worker < 0)
			fail_at(x, f, a, l, "a mirrored register is touched outside of its workers");
		const int64_t w = f->s[a->worker].i;
		if (w >= m->workers || m->owner[at] != m->first[w])
			fail_at(x, f, a, l, "the register element belongs to another worker");
		return m->place[at] + (x->gpu ? 0 : w * m->local);
	}
	at = cell_of(t, v);
	if ((uint64_t)at >= (uint64_t)t->elements)
		fail_at(x, f, a, l, "out of bounds of the layout");
	return at;
}

static bool together(const struct twiri_machine *x, const struct twiri_frame *f, uint32_t phase, uint16_t who,
		     uint16_t warp_phase)
{
	if (phase != x->phase || who == f->who)
		return false;
	const int64_t lanes = x->extent[TWIR_LANE];
	return !x->gpu || who / lanes != f->warp || warp_phase == f->warp_phase;
}

/* Elements that share a byte race like one; but lanes of a core item follow each other. */
static struct twiri_track *track_of(const struct twiri_machine *x, const struct twiri_tensor *t, int64_t cell)
{
	return &t->track[t->packed && x->gpu ? cell / t->packed : cell];
}

/* Of a packed output: nobody else stores to the byte, in any order: the others' elements would be undone. */
static void own_byte(struct twiri_machine *x, struct twiri_frame *f, const struct twiri_access *a,
		     struct twiri_tensor *t, int64_t cell, int lane)
{
	struct twiri_reader *o = &t->owners[cell / t->packed];
	if (o->serial && (o->serial != x->serial || (x->gpu && o->phase == x->phase && o->who != f->who)))
		fail_at(x, f, a, lane, "race: two workers store to elements that share a byte");
	*o = (struct twiri_reader){x->serial, x->phase, f->who};
}

static void touch_read(struct twiri_machine *x, struct twiri_frame *f, const struct twiri_access *a,
		       struct twiri_tensor *t, int64_t cell, int lane)
{
	if (t->state && t->state[cell] == CELL_EMPTY)
		fail_at(x, f, a, lane, "read before it was written");
	if (t->state && t->state[cell] == CELL_FLYING)
		fail_at(x, f, a, lane,
			"read while an asynchronous copy to it is under way: commit, wait and a barrier first");
	if (t->overwritten && t->overwritten[cell])
		fail_at(x, f, a, lane, "read after its buffer was overwritten");
	if (t->readers)
		t->readers[cell] = (struct twiri_reader){x->serial, x->phase, f->who};
	if (!t->track)
		return;
	struct twiri_track *k = track_of(x, t, cell);
	if (together(x, f, k->write_phase, k->writer, k->write_warp_phase))
		fail_at(x, f, a, lane, "race: written by another worker with no barrier between");
	k->many_readers = k->read_phase == x->phase && (k->many_readers || k->reader != f->who);
	k->read_phase = x->phase;
	k->reader = f->who;
	k->read_warp_phase = f->warp_phase;
}

static void touch_write(struct twiri_machine *x, struct twiri_frame *f, const struct twiri_access *a,
			struct twiri_tensor *t, int64_t cell, int lane)
{
	if (t->once && t->state[cell])
		fail_at(x, f, a, lane, "stored a second time");
	if (t->state[cell] == CELL_FLYING)
		fail_at(x, f, a, lane, "written while an asynchronous copy to it is under way");
	t->state[cell] = CELL_WRITTEN;
	if (t->owners)
		own_byte(x, f, a, t, cell, lane);
	if (t->readers && t->readers[cell].serial) {
		const struct twiri_reader *r = &t->readers[cell];
		if (r->serial != x->serial)
			fail_at(x, f, a, lane,
				x->gpu ? "race: overwrites what another block reads"
				       : "race: overwrites what another core item reads");
		if (r->phase == x->phase && r->who != f->who)
			fail_at(x, f, a, lane, "race: overwrites what another worker reads, with no barrier between");
	}
	if (!t->track)
		return;
	struct twiri_track *k = track_of(x, t, cell);
	if (together(x, f, k->write_phase, k->writer, k->write_warp_phase))
		fail_at(x, f, a, lane, "race: written by two workers with no barrier between");
	/* Of several readers only the last is known; a barrier of the warp may stand between this worker and the
	 * others. */
	if (together(x, f, k->read_phase, k->reader, k->read_warp_phase) ||
	    (k->many_readers && k->read_phase == x->phase && f->warp_phase == 0))
		fail_at(x, f, a, lane, "race: read by another worker with no barrier between");
	k->write_phase = x->phase;
	k->writer = f->who;
	k->write_warp_phase = f->warp_phase;
}

static bool masked_off(const struct twiri_frame *f, const struct twiri_access *a, int l)
{
	return a->mask >= 0 && !f->s[a->mask + l * a->mask_step].i;
}

/* Wide accesses stand for consecutive elements of memory, on a GPU at a multiple of their own size. */
static void check_consecutive(struct twiri_machine *x, struct twiri_frame *f, const struct twiri_access *a,
			      int64_t cell, int l, int64_t *base)
{
	if (*base == INT64_MIN)
		*base = cell - l;
	if (x->gpu && *base % a->lanes != 0)
		fail_at(x, f, a, l, "misaligned: a wide access of a GPU starts at a multiple of its own size");
	if (*base != cell - l)
		fail_at(x, f, a, l, "the elements of a wide access are not consecutive in memory");
}

static inline union twiri_slot read_fast(enum twir_scalar type, const char *at)
{
	if (type == TWIR_F32) {
		union twiri_slot r;
		memcpy(&r.s, at, sizeof(r.s));
		return r;
	}
	return twiri_read(type, at);
}

/* Element l of cell: the tensor's element, or one of its vector. Packed types have the lower bits first. */
static union twiri_slot get(const struct twiri_tensor *t, int64_t cell, int l)
{
	const int64_t at = cell * t->lanes + l;
	if (!t->packed)
		return read_fast(t->type, t->data + at * (t->bytes / t->lanes));
	const int bits = 8 / t->packed;
	const char piece = (char)((uint8_t)t->data[at / t->packed] >> (at % t->packed * bits) & ((1 << bits) - 1));
	return twiri_read(t->type, &piece);
}

static void put(struct twiri_tensor *t, int64_t cell, int l, union twiri_slot v)
{
	const int64_t at = cell * t->lanes + l;
	if (!t->packed) {
		twiri_write(t->type, t->data + at * (t->bytes / t->lanes), v);
		return;
	}
	const int bits = 8 / t->packed, shift = (int)(at % t->packed) * bits, ones = (1 << bits) - 1;
	uint8_t *byte = (uint8_t *)&t->data[at / t->packed];
	*byte = (uint8_t)((*byte & ~(ones << shift)) | (((int)v.i & ones) << shift));
}

void twiri_load(struct twiri_machine *x, struct twiri_frame *f, const struct twiri_access *a, union twiri_slot *d)
{
	struct twiri_tensor *t = f->t[a->tensor];
	if (a->lanes == 1 || a->whole) {
		if (masked_off(f, a, 0)) {
			for (int l = 0; l < a->lanes; l++)
				d[l] = f->s[a->other + l * a->other_step];
			return;
		}
		const int64_t cell = offset_of(x, f, a, t, 0);
		touch_read(x, f, a, t, cell, 0);
		for (int l = 0; l < a->lanes; l++)
			d[l] = get(t, cell, l);
		return;
	}
	int64_t base = INT64_MIN;
	for (int l = 0; l < a->lanes; l++) {
		if (masked_off(f, a, l)) {
			d[l] = f->s[a->other + l * a->other_step];
			continue;
		}
		const int64_t cell = offset_of(x, f, a, t, l);
		if (!a->gather)
			check_consecutive(x, f, a, cell, l, &base);
		touch_read(x, f, a, t, cell, l);
		d[l] = get(t, cell, 0);
	}
}

/* The value was read; the element holds nothing until it is waited for. */
static void issue(struct twiri_machine *x, struct twiri_frame *f, const struct twiri_access *a, struct twiri_tensor *t,
		  int64_t cell, union twiri_slot v)
{
	struct twiri_flight *last = f->flights.n ? &f->flights.at[f->flights.n - 1] : NULL;
	if (!last || last->access != a || last->group != f->groups || last->n == TWIRI_FLIGHT) {
		const struct twiri_flight next = {.access = a, .tensor = t, .group = f->groups};
		vec_push(x->arena, &f->flights, next);
		last = &f->flights.at[f->flights.n - 1];
	}
	last->cell[last->n] = cell;
	last->value[last->n++] = v;
	t->state[cell] = CELL_FLYING;
}

void twiri_wait(struct twiri_machine *x, struct twiri_frame *f, int pending)
{
	int kept = 0;
	for (int k = 0; k < f->flights.n; k++) {
		struct twiri_flight *c = &f->flights.at[k];
		if (c->group >= f->groups - pending) {
			f->flights.at[kept++] = *c;
			continue;
		}
		for (int l = 0; l < c->n; l++) {
			c->tensor->state[c->cell[l]] = CELL_EMPTY;
			touch_write(x, f, c->access, c->tensor, c->cell[l], 0);
			put(c->tensor, c->cell[l], 0, c->value[l]);
		}
	}
	f->flights.n = kept;
}

void twiri_store(struct twiri_machine *x, struct twiri_frame *f, const struct twiri_access *a,
		 const union twiri_slot *v)
{
	struct twiri_tensor *t = f->t[a->tensor];
	if (a->lanes == 1 || a->whole) {
		if (masked_off(f, a, 0))
			return;
		const int64_t cell = offset_of(x, f, a, t, 0);
		touch_write(x, f, a, t, cell, 0);
		if (a->async)
			issue(x, f, a, t, cell, v[0]);
		else
			for (int l = 0; l < a->lanes; l++)
				put(t, cell, l, v[l * a->other_step]);
		return;
	}
	int64_t base = INT64_MIN;
	for (int l = 0; l < a->lanes; l++) {
		if (masked_off(f, a, l))
			continue;
		const int64_t cell = offset_of(x, f, a, t, l);
		if (!a->gather)
			check_consecutive(x, f, a, cell, l, &base);
		touch_write(x, f, a, t, cell, l);
		if (a->async)
			issue(x, f, a, t, cell, v[l * a->other_step]);
		else
			put(t, cell, 0, v[l * a->other_step]);
	}
}

/* Halves are combined until one element is left. */
void twiri_reduce(enum twir_kind op, enum twir_scalar type, union twiri_slot *v, int n)
{
	const struct twiri_ins in = {
		.op = (uint16_t)(op * TWIRI_CLASSES + twiri_class_of(type)), .lanes = 1, .type = (uint8_t)type};
	for (int half = n / 2; half > 0; half /= 2)
		for (int l = 0; l < half; l++)
			twiri_arith(&in, &v[l], &v[l], &v[l + half], NULL);
}

void twiri_reduce_register(struct twiri_machine *x, struct twiri_frame *f, const struct twiri_access *a,
			   enum twir_kind op, union twiri_slot *d)
{
	struct twiri_tensor *t = f->t[a->tensor];
	union twiri_slot v[1024];
	const int64_t n = t->elements;
	if (x->gpu)
		twiri_fail(x, a->stmt, a->expr, "reduce of a register tensor of GPU threads is not defined");
	if (n < 1 || n > TW_COUNT(v) || (n & (n - 1)))
		twiri_fail(x, a->stmt, a->expr, "reduce needs a power of two of elements, not %lld", (long long)n);
	for (int64_t l = 0; l < n; l++) {
		int64_t cell = l;
		if (t->mirror) {
			if (t->mirror->workers != n || t->mirror->owner[l] != l)
				twiri_fail(x, a->stmt, a->expr,
					   "reduce needs a register tensor with one element a lane");
			cell = l * t->mirror->local + t->mirror->place[l];
		}
		if (!t->state[cell])
			twiri_fail(x, a->stmt, a->expr, "%s[%lld]: read before it was written", t->t->name,
				   (long long)l);
		v[l] = get(t, cell, 0);
	}
	twiri_reduce(op, t->type, v, (int)n);
	*d = v[0];
}

/* The first of the text to that tensor; NULL: there is none. */
static const struct twir_stmt *first_store(const struct twiri_machine *x, const struct twiri_tensor *t)
{
	for (int i = 0; i < x->accesses.n; i++) {
		const struct twiri_access *a = &x->accesses.at[i];
		if (a->stmt && !a->expr && a->stmt->kind == TWIR_STORE && a->stmt->u.store.tensor == t->t)
			return a->stmt;
	}
	return NULL;
}

void twiri_check_stored(struct twiri_machine *x, const struct twiri_tensor *t)
{
	int64_t v[TWIR_MAX_RANK] = {0};
	for (int k = 0; k < t->rank; k++)
		if (t->shape[k] == 0)
			return;
	for (;;) {
		if (!t->state[cell_of(t, v)]) {
			char index[256] = "";
			size_t used = 0;
			for (int k = 0; k < t->rank; k++)
				used += (size_t)snprintf(index + used, sizeof(index) - used, "%s%lld", k ? ", " : "",
							 (long long)v[k]);
			twiri_fail(x, first_store(x, t), NULL,
				   t->rank ? "%s[%s] is never stored" : "%s%s is never stored", t->t->base, index);
		}
		int k = t->rank - 1;
		while (k >= 0 && ++v[k] == t->shape[k])
			v[k--] = 0;
		if (k < 0)
			return;
	}
}
