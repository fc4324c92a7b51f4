/* interpret_run: the loop that runs the flat code of one frame, until its end or a barrier. */
#include <math.h>

#include "ir/interpret_int.h"

#define ON(KIND, CLASS) case TWIR_##KIND *TWIRI_CLASSES + TWIRI_##CLASS
#define SCALAR(KIND, CLASS, RESULT)                                                                                    \
	ON(KIND, CLASS) : if (in->lanes > 1) goto vector;                                                              \
	RESULT;                                                                                                        \
	break;

static void run_vector(const struct twiri_ins *in, union twiri_slot *s)
{
	for (int l = 0; l < in->lanes; l++)
		twiri_arith(in, &s[in->d + l], &s[in->a + l], &s[in->b + l], &s[in->c + l]);
}

static void convert(const struct twiri_ins *in, union twiri_slot *s)
{
	for (int l = 0; l < in->lanes; l++)
		s[in->d + l] = in->op == OP_CAST ? twiri_cast(in->type, (enum twir_scalar)in->b, s[in->a + l])
						 : twiri_bitcast(in->type, (enum twir_scalar)in->b, s[in->a + l]);
}

static void reduce_vector(const struct twiri_ins *in, union twiri_slot *s)
{
	union twiri_slot v[1024];
	TW_CHECK(in->c >= 1 && in->c <= TW_COUNT(v) && !(in->c & (in->c - 1)), "reduce of %d lanes", in->c);
	memcpy(v, &s[in->a], sizeof(v[0]) * (size_t)in->c);
	twiri_reduce((enum twir_kind)in->b, in->type, v, in->c);
	s[in->d] = v[0];
}

/* A region's lanes run one after another; each of the lanes and the code around is a phase of its own for race
 * checks. */
static bool next_lane(struct twiri_machine *x, struct twiri_frame *f)
{
	union twiri_slot *lane = &f->s[x->worker_slot[TWIR_LANE]];
	if (++lane->i < x->extent[TWIR_LANE]) {
		f->who = (uint16_t)lane->i;
		return true;
	}
	lane->i = -1;
	f->who = 0;
	x->phase++;
	return false;
}

static bool next_task(struct twiri_machine *x, const struct twiri_site *site, union twiri_slot *s)
{
	while (twiri_map_step(site, s)) {
		twiri_step(x, 1);
		if (twiri_map_inside(site, s))
			return true;
	}
	return false;
}

void twiri_out_of_steps(struct twiri_machine *x)
{
	tw_raise(TW_ERR_CANCELLED, "%s %s: more steps than allowed; a loop may be far longer than meant", x->what,
		 x->name);
}

void twiri_run(struct twiri_machine *x, struct twiri_frame *f)
{
	twiri_step(x, 1);
	const struct twiri_ins *const code = x->code.at;
	const struct twiri_ins *in = &code[f->pc];
	union twiri_slot *const s = f->s;
	for (;;) {
		union twiri_slot *const d = &s[in->d];
		const union twiri_slot *const a = &s[in->a], *const b = &s[in->b], *const c = &s[in->c];
		switch (in->op) {
			SCALAR(Add, LONG, d->i = (int64_t)((uint64_t)a->i + (uint64_t)b->i))
			SCALAR(Sub, LONG, d->i = (int64_t)((uint64_t)a->i - (uint64_t)b->i))
			SCALAR(Mul, LONG, d->i = (int64_t)((uint64_t)a->i * (uint64_t)b->i))
			SCALAR(Lt, LONG, d->i = a->i < b->i)
			SCALAR(Le, LONG, d->i = a->i <= b->i)
			SCALAR(Eq, LONG, d->i = a->i == b->i)
			SCALAR(Ne, LONG, d->i = a->i != b->i)
			SCALAR(Min, LONG, d->i = a->i < b->i ? a->i : b->i)
			SCALAR(Max, LONG, d->i = a->i > b->i ? a->i : b->i)
			SCALAR(And, NARROW, d->i = a->i & b->i)
			SCALAR(Or, NARROW, d->i = a->i | b->i)
			SCALAR(Add, F32, d->s = a->s + b->s)
			SCALAR(Sub, F32, d->s = a->s - b->s)
			SCALAR(Mul, F32, d->s = a->s * b->s)
			SCALAR(Div, F32, d->s = a->s / b->s)
			SCALAR(Lt, F32, d->i = a->s < b->s)
			SCALAR(Fma, F32, d->s = fmaf(a->s, b->s, c->s))
		case OP_COPY:
			for (int l = 0; l < in->lanes; l++)
				d[l] = a[l];
			break;
		case OP_SPLAT:
			for (int l = 0; l < in->lanes; l++)
				d[l] = a[0];
			break;
		case OP_SELECT:
			for (int l = 0; l < in->lanes; l++)
				d[l] = a->i ? b[l] : c[l];
			break;
		case OP_CAST:
		case OP_BITCAST:
			convert(in, s);
			break;
		case OP_REDUCE:
			reduce_vector(in, s);
			break;
		case OP_REDUCE_REGISTER:
			twiri_reduce_register(x, f, &x->accesses.at[in->c], (enum twir_kind)in->b, d);
			break;
		case OP_LOAD:
			twiri_load(x, f, &x->accesses.at[in->c], d);
			break;
		case OP_STORE:
			twiri_store(x, f, &x->accesses.at[in->c], a);
			break;
		case OP_JUMP:
			in += in->c;
			continue;
		case OP_JUMP_IF_NOT:
			if (!a->i) {
				in += in->c;
				continue;
			}
			break;
		case OP_LOOP_BEGIN:
			d->i = 0;
			if (a->i <= 0) {
				in += in->c;
				continue;
			}
			break;
		case OP_LOOP_NEXT:
			twiri_step(x, 1);
			if (++d->i < a->i) {
				in += in->c;
				continue;
			}
			break;
		case OP_MAP_BEGIN:
			if (!twiri_map_begin(x, f, &x->sites.at[in->a])) {
				in += in->c;
				continue;
			}
			break;
		case OP_MAP_NEXT:
			if (next_task(x, &x->sites.at[in->a], s)) {
				in += in->c;
				continue;
			}
			break;
		case OP_REGION:
			s[x->worker_slot[TWIR_LANE]].i = -1;
			x->phase++;
			break;
		case OP_LANE_NEXT:
			twiri_step(x, 1);
			if (!next_lane(x, f)) {
				in += in->c;
				continue;
			}
			break;
		case OP_DECLARE:
			twiri_declare(x, f, &x->declares.at[in->a]);
			break;
		case OP_BARRIER:
			f->pc = (int)(in + 1 - code);
			f->at_level = in->a;
			f->status = TWIRI_AT_BARRIER;
			return;
		case OP_SHUFFLE:
		case OP_MMA:
			f->pc = (int)(in - code);
			f->status = TWIRI_AT_WARP;
			return;
		case OP_COMMIT:
			f->groups++;
			break;
		case OP_WAIT:
			twiri_wait(x, f, in->a);
			break;
		case OP_END:
			f->status = TWIRI_DONE;
			return;
		default:
			if (in->lanes == 1)
				twiri_arith(in, d, a, b, c);
			else
			vector:
				run_vector(in, s);
		}
		in++;
	}
}
