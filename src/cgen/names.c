/* names: a program's name as the name of a function in C, CUDA C and OpenCL C: words and built-in functions of these
 * languages get a letter more. */
#include "cgen/cgen_int.h"

/* Each between blanks. */
static const char taken[] =
	/* C and C++ */
	" asm auto bool break case catch char class const continue default delete do double else enum explicit extern "
	"false float for friend goto if inline int long main namespace new operator private protected public register "
	"restrict return short signed sizeof static struct switch template this throw true try typedef typename union "
	"unsigned using virtual void volatile while "
	/* of our texts */
	" i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 pool "
	/* OpenCL C */
	" abs abs_diff acos acosh add_sat all any asin asinh async_work_group_copy atan atan2 atanh barrier bitselect "
	"cbrt "
	"ceil clamp clz constant convert copysign cos cosh cross degrees distance dot erf erfc event_t exp exp10 exp2 "
	"expm1 "
	"fabs fdim floor fma fmax fmin fmod fract frexp global hadd half hypot ilogb image isequal isfinite isinf "
	"isnan kernel "
	"ldexp length lgamma local log log10 log1p log2 logb mad mad24 mad_hi mad_sat max maxmag mem_fence min minmag "
	"mix mod "
	"modf mul24 mul_hi nan nextafter normalize popcount pow pown powr prefetch printf private quad radians "
	"read_only "
	"remainder remquo rhadd rint rootn rotate round rsqrt select shuffle shuffle2 sign signbit sin sincos sinh "
	"sinpi "
	"smoothstep sqrt step sub_sat tan tanh tanpi tgamma trunc uchar uint ulong ushort upsample vec_step vload_half "
	"write_only ";

const char *cgen_function_name(struct tw_arena *a, const char *name)
{
	const char *spaced = arena_printf(a, " %s ", name);
	return strstr(taken, spaced) ? arena_printf(a, "%s_k", name) : name;
}
