# Files made at build time in generated/: the lists that rooms grow by (a new operator file is one file), the math library as text,
# and an identification of the sources, so that cached kernels of another build are never taken for ours.
set(TW_GENERATED ${CMAKE_BINARY_DIR}/generated)
file(GLOB TW_OPS_FILES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/ops/*.c)
file(GLOB TW_HOST_FILES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/rt/host/*.c)
file(GLOB TW_MATH_FILES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/ir/math.tw)
file(GLOB_RECURSE TW_ALL_SOURCES CONFIGURE_DEPENDS
	${CMAKE_SOURCE_DIR}/src/*.c ${CMAKE_SOURCE_DIR}/src/*.h ${CMAKE_SOURCE_DIR}/src/*.def ${CMAKE_SOURCE_DIR}/src/*.tw)

# tw_generate(FILE WHAT DEPENDS...): runs cmake/generate.cmake; the file's time changes only when its contents do.
set(TW_GENERATED_STAMPS "")
function(tw_generate file what)
	set(stamp ${TW_GENERATED}/${file}.stamp)
	add_custom_command(OUTPUT ${stamp} BYPRODUCTS ${TW_GENERATED}/${file}
		COMMAND ${CMAKE_COMMAND} -DWHAT=${what} -DSOURCE=${CMAKE_SOURCE_DIR} -DOUT=${TW_GENERATED}/${file}
			-P ${CMAKE_SOURCE_DIR}/cmake/generate.cmake
		COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
		DEPENDS ${ARGN} ${CMAKE_SOURCE_DIR}/cmake/generate.cmake
		COMMENT "generating ${file}" VERBATIM)
	set(TW_GENERATED_STAMPS ${TW_GENERATED_STAMPS} ${stamp} PARENT_SCOPE)
endfunction()

tw_generate(ops_list.inc ops ${TW_OPS_FILES})
tw_generate(host_list.inc host ${TW_HOST_FILES})
tw_generate(math_tw.inc math ${TW_MATH_FILES})
tw_generate(build_id.inc build_id ${TW_ALL_SOURCES})
add_custom_target(tw_generated DEPENDS ${TW_GENERATED_STAMPS})
