package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary be the program itself, so that signals, exit
// statuses and pipes are tested on a real process.
func TestMain(m *testing.M) {
	if os.Getenv("UPSTREAM_TEST_AS_PROGRAM") != "" {
		main()
	}
	os.Exit(m.Run())
}

// asProgram is the environment of such a process. Under -race, a process would
// otherwise sleep for a second at its exit.
func asProgram() []string {
	return append(os.Environ(), "UPSTREAM_TEST_AS_PROGRAM=1", "GORACE=atexit_sleep_ms=0")
}

// program is one run of the real command line.
type program struct {
	*exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr *lines
}

func start(t *testing.T, args ...string) *program {
	t.Helper()
	p := &program{Cmd: exec.Command(os.Args[0], args...), stderr: &lines{}}
	p.Env = asProgram()
	p.Stderr = p.stderr
	var err error
	if p.stdin, err = p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdout = bufio.NewReader(stdout)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	return p
}

// line reads the one line on standard output into value.
func (p *program) line(t *testing.T, value any) {
	t.Helper()
	text, err := p.stdout.ReadBytes('\n')
	if err != nil || json.Unmarshal(text, value) != nil {
		t.Fatalf("stdout %q (%v), stderr %s", text, err, p.stderr)
	}
}

// end waits for the process and returns its exit status and the rest of its
// standard output.
func (p *program) end(t *testing.T, limit time.Duration) (int, string) {
	t.Helper()
	late := time.AfterFunc(limit, func() {
		t.Errorf("not ended within %v", limit)
		_ = p.Process.Kill()
	})
	defer late.Stop()
	rest, _ := io.ReadAll(p.stdout)
	_ = p.Wait()
	return p.ProcessState.ExitCode(), string(rest)
}

func TestCommandLineRefuses(t *testing.T) {
	taken := onLoopback(t).Addr().String()
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "no subcommand"},
		{[]string{"sevre"}, `"sevre" is not a subcommand`},
		{[]string{"version", "x"}, "expected no argument"},
		{[]string{"serve"}, "--model is \"\"; expected IP:PORT"},
		{[]string{"serve", "--model", "127.0.0.1:0"}, "--control is \"\""},
		{[]string{"serve", "--model", "localhost:0", "--control", "127.0.0.1:0"}, "expected IP:PORT"},
		{[]string{"serve", "--model", "127.0.0.1:65536", "--control", "127.0.0.1:0"}, "expected IP:PORT"},
		{[]string{"serve", "--model", taken, "--control", "127.0.0.1:0"}, "--model " + taken + " is already taken"},
		{[]string{"serve", "--model", "127.0.0.1:0", "--control", taken}, "--control " + taken + " is already taken"},
		{[]string{"serve", "--model", "192.0.2.1:0", "--control", "127.0.0.1:0"}, "is not an address of this machine"},
		{[]string{"serve", "--model", "127.0.0.1:0", "--control", "127.0.0.1:0", "--max-body", "0"}, "--max-body is 0"},
		{[]string{"serve", "--model", "127.0.0.1:0", "--control", "127.0.0.1:0", "--max-body", "x"}, "bad option"},
		{[]string{"serve", "--port", "1"}, "not defined: -port"},
		{[]string{"serve", "x"}, "expected options only"},
		{[]string{"relay"}, "no --forward"},
		{[]string{"relay", "--forward", "127.0.0.1:0"}, "has no '='"},
		{[]string{"relay", "--forward", "127.0.0.1:0=host"}, "expected HOST:PORT"},
		{[]string{"relay", "--forward", "127.0.0.1:0=host:0"}, "expected HOST:PORT"},
		{[]string{"relay", "--forward", "x:1=host:1"}, "expected IP:PORT"},
		{[]string{"relay", "--forward", taken + "=host:1"}, "already taken"},
		{[]string{"relay", "--forward", "127.0.0.1:0=a:1", "--forward", "127.0.0.1:0=b:1"}, "twice"},
	} {
		p := start(t, c.args...)
		status, stdout := p.end(t, 10*time.Second)
		message := p.stderr.String()
		if status != 2 || stdout != "" || !strings.Contains(message, c.want) || strings.Count(message, "\n") != 1 {
			t.Errorf("%q: status %d, stdout %q, stderr %q; want %s", c.args, status, stdout, message, c.want)
		}
	}
}

func TestHelpAndVersion(t *testing.T) {
	p := start(t, "serve", "--help")
	if status, _ := p.end(t, 10*time.Second); status != 0 || !strings.HasPrefix(p.stderr.String(), "usage:") {
		t.Errorf("%d %s", status, p.stderr)
	}
	var line map[string]string
	p = start(t, "version")
	p.line(t, &line)
	if status, rest := p.end(t, 10*time.Second); status != 0 || rest != "" || line["version"] != version {
		t.Errorf("%d %q %v", status, rest, line)
	}
}

func TestServeEndsOnSignal(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		p := start(t, "serve", "--model", "127.0.0.1:0", "--control", "127.0.0.1:0")
		var line serving
		p.line(t, &line)
		request, _ := http.NewRequest("PUT", "http://"+line.Control+"/script", strings.NewReader(steps(`{"status":201}`, `{"action":"hang"}`)))
		if response, err := http.DefaultClient.Do(request); err != nil || response.StatusCode != 200 {
			t.Fatal(response, err)
		}
		if response, err := http.Get("http://" + line.Model + "/x?y=%22"); err != nil || response.StatusCode != 201 {
			t.Fatal(response, err)
		}
		hanging := dial(t, line.Model)
		_, _ = hanging.Write([]byte("GET /hangs HTTP/1.1\r\nHost: h\r\n\r\n"))
		eventually(t, "it hangs", func() bool {
			response, err := http.Get("http://" + line.Control + "/journal?settle_ms=0")
			if err != nil {
				return false
			}
			defer response.Body.Close()
			body, _ := io.ReadAll(response.Body)
			return strings.Contains(string(body), `"in_flight":1`)
		})
		silent := dial(t, line.Model) // connected, says nothing
		_ = p.Process.Signal(signal)
		status, rest := p.end(t, time.Second)
		log := p.stderr.String()
		if status != 0 || rest != "" || readAll(hanging) != "" || readAll(silent) != "" {
			t.Errorf("%v: status %d, stdout %q", signal, status, rest)
		}
		for _, want := range []string{` control - PUT "/script" 200 epoch=1`, ` model 1 GET "/x?y=%22" 201 epoch=1 order=1 step="step-1" matched=true`,
			` model 2 GET "/hangs" 0 epoch=1 order=2 step="step-2" matched=true unmet=[] action="hang"`, " stop -"} {
			if !strings.Contains(log, want) {
				t.Errorf("%v: the log lacks %q:\n%s", signal, want, log)
			}
		}
	}
}

func TestExitWithParent(t *testing.T) {
	for _, args := range [][]string{
		{"serve", "--model", "127.0.0.1:0", "--control", "127.0.0.1:0", "--exit-with-parent"},
		{"relay", "--forward", "127.0.0.1:0=127.0.0.1:1", "--exit-with-parent"},
	} {
		p := start(t, args...)
		var line map[string]any
		p.line(t, &line)
		_ = p.stdin.Close()
		if status, _ := p.end(t, time.Second); status != 0 {
			t.Errorf("%s: status %d", args[0], status)
		}
	}
}

// TestLogNobodyReads: a parent that stopped reading the log does not kill us.
func TestLogNobodyReads(t *testing.T) {
	command := exec.Command(os.Args[0], "serve", "--model", "127.0.0.1:0", "--control", "127.0.0.1:0", "--exit-with-parent")
	command.Env = asProgram()
	stderr, _ := command.StderrPipe()
	stdin, _ := command.StdinPipe()
	stdout, _ := command.StdoutPipe()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var line serving
	if err := json.NewDecoder(stdout).Decode(&line); err != nil {
		t.Fatal(err)
	}
	_ = stderr.Close()
	for range 2 {
		if response, err := http.Get("http://" + line.Control + "/journal"); err != nil || response.StatusCode != 200 {
			t.Error(response, err)
		}
	}
	_ = stdin.Close()
	if err := command.Wait(); err != nil {
		t.Error(err)
	}
}

func TestRelayCommand(t *testing.T) {
	server := onLoopback(t)
	p := start(t, "relay", "--forward", "127.0.0.1:0="+server.Addr().String(), "--forward", "127.0.0.2:0="+server.Addr().String())
	var line relaying
	p.line(t, &line)
	if len(line.Listen) != 2 {
		t.Fatalf("%+v", line)
	}
	for _, address := range line.Listen {
		client := dial(t, address)
		peer, err := server.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = client.Write([]byte("x"))
		if _, err := io.ReadFull(peer, make([]byte, 1)); err != nil {
			t.Error(err)
		}
		defer peer.Close()
	}
	_ = p.Process.Signal(syscall.SIGTERM)
	if status, rest := p.end(t, time.Second); status != 0 || rest != "" {
		t.Errorf("%d %q", status, rest)
	}
	for _, address := range line.Listen {
		if connection, err := net.Dial("tcp", address); err == nil {
			_ = connection.Close()
			t.Errorf("%s still listens", address)
		}
	}
}
