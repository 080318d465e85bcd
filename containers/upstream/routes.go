package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// routeTables are where Linux shows the routes of a network namespace.
const (
	routeTable4 = "/proc/net/route"
	routeTable6 = "/proc/net/ipv6_route"
)

// routing is the line that `upstream routes` prints: what this network
// namespace could reach. It is read, nothing is sent.
type routing struct {
	Routes       []route `json:"routes"`
	DefaultRoute bool    `json:"default_route"` // whether any route leads everywhere
	Version      string  `json:"version"`
}

// route is one line of a table.
type route struct {
	Destination string `json:"destination"` // a prefix, such as 172.18.0.0/16
	Interface   string `json:"interface"`
	Gateway     string `json:"gateway,omitempty"` // absent for what is reached directly
}

// showRoutes prints the routes of the namespace it runs in.
func showRoutes(stdout io.Writer) error {
	shown := routing{Routes: []route{}, Version: version}
	for path, parse := range map[string]func(string) ([]route, error){
		routeTable4: parseRoutes4,
		routeTable6: parseRoutes6,
	} {
		text, err := os.ReadFile(path)
		if os.IsNotExist(err) && path == routeTable6 {
			continue // a kernel without IPv6 has no such routes
		}
		if err != nil {
			return fmt.Errorf("the routes cannot be read: %w", err)
		}
		routes, err := parse(string(text))
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		shown.Routes = append(shown.Routes, routes...)
	}
	slices.SortFunc(shown.Routes, func(a, b route) int {
		return strings.Compare(a.Destination+a.Interface, b.Destination+b.Interface)
	})
	shown.DefaultRoute = slices.ContainsFunc(shown.Routes, func(r route) bool {
		return strings.HasSuffix(r.Destination, "/0")
	})
	return printLine(stdout, shown)
}

// parseRoutes4 reads /proc/net/route: a heading, then interface, destination,
// gateway, flags, ..., mask (eighth), addresses as little-endian hex.
func parseRoutes4(text string) ([]route, error) {
	var routes []route
	for _, line := range strings.Split(text, "\n")[1:] {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) < 8 {
			return nil, fmt.Errorf("%d fields in %q, expected at least 8", len(fields), line)
		}
		destination, err := address4(fields[1])
		if err != nil {
			return nil, err
		}
		gateway, err := address4(fields[2])
		if err != nil {
			return nil, err
		}
		mask, err := address4(fields[7])
		if err != nil {
			return nil, err
		}
		bits := 0
		for _, octet := range mask.AsSlice() {
			for ; octet&0x80 != 0; octet <<= 1 {
				bits++
			}
		}
		routes = append(routes, newRoute(netip.PrefixFrom(destination, bits), fields[0], gateway))
	}
	return routes, nil
}

// parseRoutes6 reads /proc/net/ipv6_route: destination, prefix length, source,
// its length, next hop, metric, counters, flags, interface. Routes of the
// loopback and those that reject (flag 0x200) lead nowhere and are left out.
func parseRoutes6(text string) ([]route, error) {
	const rejects = 0x200
	var routes []route
	for _, line := range strings.Split(text, "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) < 10 {
			return nil, fmt.Errorf("%d fields in %q, expected 10", len(fields), line)
		}
		var bits, flags int
		if _, err := fmt.Sscanf(fields[1]+" "+fields[8], "%x %x", &bits, &flags); err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		if fields[9] == "lo" || flags&rejects != 0 {
			continue
		}
		destination, err := address6(fields[0])
		if err != nil {
			return nil, err
		}
		gateway, err := address6(fields[4])
		if err != nil {
			return nil, err
		}
		routes = append(routes, newRoute(netip.PrefixFrom(destination, bits), fields[9], gateway))
	}
	return routes, nil
}

func newRoute(destination netip.Prefix, through string, gateway netip.Addr) route {
	found := route{Destination: destination.String(), Interface: through}
	if !gateway.IsUnspecified() {
		found.Gateway = gateway.String()
	}
	return found
}

func address4(text string) (netip.Addr, error) {
	octets, err := hex.DecodeString(text)
	if err != nil || len(octets) != 4 {
		return netip.Addr{}, fmt.Errorf("%q is no IPv4 address in hex", text)
	}
	slices.Reverse(octets)
	return netip.AddrFrom4([4]byte(octets)), nil
}

func address6(text string) (netip.Addr, error) {
	octets, err := hex.DecodeString(text)
	if err != nil || len(octets) != 16 {
		return netip.Addr{}, fmt.Errorf("%q is no IPv6 address in hex", text)
	}
	return netip.AddrFrom16([16]byte(octets)), nil
}
