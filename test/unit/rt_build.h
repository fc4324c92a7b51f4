/* Hand-made plans for the runtime's tests, and the kernels they call, compiled from C text by the system's compiler. */
#ifndef RT_BUILD_H
#define RT_BUILD_H

#include "rt/rt.h"

/* The kernels, in the order of twrt_plan.kernels: sym[0] elements, 64 a work item.
   add: c = a + b; twice: b = 2 a; bias: c[i] = a[i] + w[i % sym[1]]; mix: c = 0.5 a - b + 1;
   split: b = a + 1, c = a + 2 */
enum { K_ADD, K_TWICE, K_BIAS, K_MIX, K_SPLIT, K_COUNT };
struct twrt_code rt_kernels(void); /* compiled once */
extern const char *const rt_kernel_names[K_COUNT];

struct twrt_expr rt_num(int64_t x);
struct twrt_expr rt_sym(int s);
struct twrt_expr rt_op(enum twrt_opcode op, struct twrt_expr a, struct twrt_expr b); /* never freed: tests are short */
struct twrt_step rt_step(int kernel, struct twrt_expr elements, int nbuffers, const int *buffers, int nout,
			 const int *inplace);

/* y = reshape(2 * (a + b)) + w, a and b of n x m: symbols n, m; z = reshape of a. Outputs y[n * m], z[n * m]. */
void rt_example(struct twrt_plan *p, const float *w, int64_t m);
struct twrt_model *rt_open(const struct twrt_plan *p); /* through an image */

#endif
