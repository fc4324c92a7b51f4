" Vim syntax of Tilewright's tensor programs (.tw). The keyword lists are held against the compiler's own tables by
" test/unit/test_ir_language.c.
if exists("b:current_syntax")
  finish
endif

syn keyword tilewrightDeclaration symbol const func tensor define program launch let map register shared buffer
syn keyword tilewrightStatement for in on within if else specialise barrier prefetch return call with copy async commit wait mma near
syn keyword tilewrightModifier out alias from multiple layout mirrors ranks attrs where
syn keyword tilewrightMapping repeat spatial project unroll vector plain
syn keyword tilewrightLayout row column strides blocked local swizzle
syn keyword tilewrightLevel core lane block warp thread
syn keyword tilewrightType void i1 i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 index
syn keyword tilewrightType f8e4m3fn f8e4m3fnuz f8e5m2 f8e5m2fnuz f8e8m0 f4e2m1 i4 u4 i2 u2
syn keyword tilewrightOperator and or xor not
syn keyword tilewrightOperation min max minnum maxnum abs sqrt floor ceil round trunc fma dot4 select extract ceil_div round_up neg
syn keyword tilewrightOperation shfl_up shfl_down shfl_xor shfl_idx reduce splat gather lanes
syn keyword tilewrightOperation sum prod fold_min fold_max fold_minnum fold_maxnum fold_and fold_or fold_xor add mul
syn keyword tilewrightConstant true false inf nan

syn match tilewrightType "\<\(i1\|i8\|i16\|i32\|i64\|u8\|u16\|u32\|u64\|f16\|bf16\|f32\|f64\|index\)x[1-9][0-9]*\>"
syn match tilewrightOperation "\<\(bitcast\|iota\)_[a-z0-9]\+\>"
syn match tilewrightConstant "\<\(inf\|nan\)_[a-z0-9]\+\>"
syn match tilewrightNumber "\<[0-9][0-9]*\(\.[0-9]*\)\=\([eE][-+]\=[0-9]\+\)\=\(b\=f[0-9a-z]*\|[iu][0-9]*\)\=\>"
syn match tilewrightNumber "\<0x[0-9a-fA-F]\+\(\.[0-9a-fA-F]*\)\=\([pP][-+]\=[0-9]\+\)\=\([biuf][0-9a-z]*\)\=\>"
syn region tilewrightString start=+"+ skip=+\\.+ end=+"+ oneline
syn match tilewrightComment "#.*$"

hi def link tilewrightDeclaration Keyword
hi def link tilewrightStatement Statement
hi def link tilewrightModifier StorageClass
hi def link tilewrightMapping Structure
hi def link tilewrightLayout Structure
hi def link tilewrightLevel Special
hi def link tilewrightType Type
hi def link tilewrightOperator Operator
hi def link tilewrightOperation Function
hi def link tilewrightConstant Constant
hi def link tilewrightNumber Number
hi def link tilewrightString String
hi def link tilewrightComment Comment

let b:current_syntax = "tilewright"
