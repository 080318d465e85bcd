package main

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
	"syscall"
)

// parseListen reads an address to listen on. Host names are refused: what they
// resolve to would decide who can reach the port.
func parseListen(option, text string) (netip.AddrPort, error) {
	address, err := netip.ParseAddrPort(text)
	if err != nil {
		return address, refuse("%s is %q; expected IP:PORT; write it as 127.0.0.1:0 or 0.0.0.0:8080", option, text)
	}
	return address, nil
}

// checkTarget tells whether text is HOST:PORT with a port one can connect to.
func checkTarget(text string) error {
	host, port, err := net.SplitHostPort(text)
	number, portErr := strconv.ParseUint(port, 10, 16)
	if err != nil || portErr != nil || host == "" || number == 0 {
		return refuse("the target is %q; expected HOST:PORT with a port from 1 to 65535; write it as upstream:8080", text)
	}
	return nil
}

// listen opens a TCP port for what option names, or refuses with a sentence.
func listen(option string, address netip.AddrPort) (net.Listener, error) {
	listener, err := net.Listen("tcp", address.String())
	switch {
	case err == nil:
		return listener, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, refuse("%s %s is already taken; expected a free port; choose another, or port 0", option, address)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, refuse("%s %s is not an address of this machine; expected a local one; use 127.0.0.1 or 0.0.0.0", option, address)
	case errors.Is(err, syscall.EACCES):
		return nil, refuse("%s %s may not be opened by this user; expected a permitted port; choose one above 1023, or port 0", option, address)
	}
	return nil, refuse("%s %s cannot be opened (%s); expected an address to listen on; choose another", option, address, err)
}
