# Installation: the header, the libraries, the command line, and what lets pkg-config and CMake find them.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(FILES ${CMAKE_SOURCE_DIR}/include/tilewright.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS tilewright_static tilewright_shared EXPORT tilewright
	ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
	INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET tilewright)
	install(TARGETS tilewright RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
	file(GLOB pages CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/man/*.1)
	install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
install(EXPORT tilewright NAMESPACE tilewright:: FILE tilewrightTargets.cmake
	DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tilewright)
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/tilewrightConfig.cmake.in ${CMAKE_BINARY_DIR}/tilewrightConfig.cmake
	INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tilewright)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/tilewrightConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/tilewrightConfig.cmake ${CMAKE_BINARY_DIR}/tilewrightConfigVersion.cmake
	DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tilewright)
# The file says where it lies itself, so that the installed tree may be moved.
file(RELATIVE_PATH TW_PREFIX_FROM_PC /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" TW_PREFIX_FROM_PC "${TW_PREFIX_FROM_PC}")
configure_file(${CMAKE_SOURCE_DIR}/cmake/tilewright.pc.in ${CMAKE_BINARY_DIR}/tilewright.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/tilewright.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
