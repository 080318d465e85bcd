package main

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"
)

// rtentry is the kernel's struct rtentry (linux/route.h), by which SIOCDELRT
// names a route.
type rtentry struct {
	_                     uintptr
	dst, gateway, genmask syscall.RawSockaddrInet4
	flags                 uint16
	_                     int16
	_                     uintptr
	_                     uintptr
	metric                int16
	dev                   uintptr
	mtu, window           uintptr
	irtt                  uint16
}

// closeDefaultRoutes removes every IPv4 route of this network namespace that
// leads everywhere. Docker before 23 gives one to the containers of an internal
// network too, and leaves it to a firewall that nothing gets out.
//
// It needs CAP_NET_ADMIN in the namespace.
func closeDefaultRoutes() error {
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0)
	if err != nil {
		return fmt.Errorf("no socket to remove the default route with: %w", err)
	}
	defer syscall.Close(socket)
	everywhere := rtentry{flags: syscall.RTF_UP}
	everywhere.dst.Family = syscall.AF_INET
	everywhere.genmask.Family = syscall.AF_INET
	for {
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(socket), syscall.SIOCDELRT,
			uintptr(unsafe.Pointer(&everywhere)))
		switch {
		case errno == 0: // there may be another
		case errors.Is(errno, syscall.ESRCH): // none is left
			return nil
		default:
			return refuse("the default route cannot be removed (%s); expected to run with CAP_NET_ADMIN in a network namespace of its own; leave out --close otherwise", errno.Error())
		}
	}
}
