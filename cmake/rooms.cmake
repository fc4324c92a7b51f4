# The rooms in the order data flows, then the library, the command line and the tests.
foreach(room base tmap target ir pass graph ops onnx sched opt cgen rt rt/host backend/cpu compile api)
	tw_room(${room})
endforeach()
