package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"
)

const heading = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"

func TestRoutes4(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []route
	}{
		"an internal network": {
			heading + "eth0\t000012AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n",
			[]route{{"172.18.0.0/16", "eth0", ""}},
		},
		"a way out": {
			heading + "eth0\t00000000\t010012AC\t0003\t0\t0\t0\t00000000\t0\t0\t0\n",
			[]route{{"0.0.0.0/0", "eth0", "172.18.0.1"}},
		},
		"none": {heading, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseRoutes4(test.text)
			if err != nil || !slices.Equal(got, test.want) {
				t.Errorf("got %v (%v), want %v", got, err, test.want)
			}
		})
	}
}

func TestRoutes6(t *testing.T) {
	const zero = "00000000000000000000000000000000"
	const way = zero + " 00 " + zero + " 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003 eth0\n"
	const rejected = zero + " 00 " + zero + " 00 " + zero + " ffffffff 00000001 00000000 00200200 eth0\n"
	const loopback = zero + " 00 " + zero + " 00 " + zero + " ffffffff 00000001 00000000 00200000 lo\n"
	got, err := parseRoutes6(way + rejected + loopback)
	if want := []route{{"::/0", "eth0", "fe80::1"}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v (%v), want %v", got, err, want)
	}
}

func TestRoutesThatCannotBeRead(t *testing.T) {
	for _, text := range []string{heading + "eth0\t00\n", heading + "eth0\tXX\t0\t0\t0\t0\t0\t0\n"} {
		if got, err := parseRoutes4(text); err == nil {
			t.Errorf("%q gave %v, want an error", text, got)
		}
	}
	if got, err := parseRoutes6("00 00\n"); err == nil {
		t.Errorf("got %v, want an error", got)
	}
}

func TestRoutesOfThisMachine(t *testing.T) {
	p := start(t, "routes")
	var shown routing
	p.line(t, &shown)
	if status, rest := p.end(t, 5*time.Second); status != exitOK || rest != "" {
		t.Errorf("status %d, more output %q", status, rest)
	}
	if text, err := json.Marshal(shown); err != nil || shown.Version != version {
		t.Errorf("%s (%v)", text, err)
	}
}

// In Docker the route that is removed is a real one: see the project's integration tests.
func TestClosingRoutesWhereThereAreNone(t *testing.T) {
	command := exec.Command(os.Args[0], "routes", "--close")
	command.Env = asProgram()
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	text, err := command.Output()
	if errors.Is(err, syscall.EPERM) {
		t.Skip("needs the right to make a network namespace")
	}
	var shown routing
	if err != nil || json.Unmarshal(text, &shown) != nil || shown.DefaultRoute || len(shown.Routes) != 0 {
		t.Errorf("%s (%v), want no route", text, err)
	}
}
