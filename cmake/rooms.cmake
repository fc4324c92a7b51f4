# Rooms: one folder of src/, one object library tw_ROOM_objects and one static library tw_ROOM. A folder without C files is skipped.
# TW_ROOMS lists them in the order data flows; tools/layers.py reads this list too, and knows who may include whom.
set(TW_ROOMS base tmap target ir pass graph ops onnx sched opt cgen rt rt/host backend/cpu backend/opencl compile api)

# Names of the rooms' targets that exist, in order.
set(TW_ROOM_LIBRARIES "")
set(TW_ROOM_OBJECTS "")

function(tw_room room)
	file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${room}/*.c)
	if(NOT files)
		return()
	endif()
	string(REPLACE "/" "_" name tw_${room})
	add_library(${name}_objects OBJECT ${files})
	target_link_libraries(${name}_objects PRIVATE tw_external)
	add_dependencies(${name}_objects tw_generated)
	add_library(${name} STATIC $<TARGET_OBJECTS:${name}_objects>)
	target_link_libraries(${name} PUBLIC tw_external)
	set(TW_ROOM_LIBRARIES ${TW_ROOM_LIBRARIES} ${name} PARENT_SCOPE)
	set(TW_ROOM_OBJECTS ${TW_ROOM_OBJECTS} $<TARGET_OBJECTS:${name}_objects> PARENT_SCOPE)
endfunction()

foreach(room IN LISTS TW_ROOMS)
	tw_room(${room})
endforeach()

# Links some rooms (names as in TW_ROOMS) into a target, whatever order they need each other in. Rooms that are still empty are left out.
function(tw_link_rooms target)
	set(found "")
	foreach(room IN LISTS ARGN)
		string(REPLACE "/" "_" name tw_${room})
		if(TARGET ${name})
			list(APPEND found ${name})
		elseif(NOT room IN_LIST TW_ROOMS)
			message(FATAL_ERROR "${target}: there is no room '${room}'")
		endif()
	endforeach()
	if(found)
		string(REPLACE ";" "," group "${found}")
		target_link_libraries(${target} PRIVATE "$<LINK_GROUP:RESCAN,${group}>")
	endif()
endfunction()
