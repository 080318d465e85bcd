package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// rig is both ports of one upstream, on loopback, for one test.
type rig struct {
	t              testing.TB
	model, control string // addresses
	client         *http.Client
	listeners      string             // the file that PUT /listeners replaces
	stop           context.CancelFunc // as SIGTERM would
}

func newRig(t testing.TB, maxBody int64) *rig {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	journal, events := newJournal(), &eventLog{out: io.Discard}
	r := &rig{t: t, client: &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}, listeners: filepath.Join(t.TempDir(), "listeners.json"), stop: stop}
	model, control := newModelServer(ctx, journal, events, maxBody), newControlServer(ctx, journal, events, r.listeners)
	for server, address := range map[*http.Server]*string{model: &r.model, control: &r.control} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		*address = listener.Addr().String()
		go func() { _ = server.Serve(listener) }()
	}
	t.Cleanup(func() {
		stop()
		r.client.CloseIdleConnections()
		shutDown(model, control)
	})
	return r
}

// call sends one request and returns status, headers and body.
func (r *rig) call(method, url, body string, headers ...string) (int, http.Header, string) {
	r.t.Helper()
	request, err := http.NewRequest(method, "http://"+url, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Add(headers[i], headers[i+1])
	}
	response, err := r.client.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	r.client.CloseIdleConnections() // as the gateway does: the model port waits for that
	return response.StatusCode, response.Header, string(data)
}

// put installs a script and returns its epoch.
func (r *rig) put(script string) uint64 {
	r.t.Helper()
	status, _, body := r.call("PUT", r.control+"/script", script)
	var reply epochReply
	if status != 200 || json.Unmarshal([]byte(body), &reply) != nil {
		r.t.Fatalf("PUT /script: %d %s", status, body)
	}
	return reply.Epoch
}

// journal reads the journal of the current epoch.
func (r *rig) journal(query string) Report {
	r.t.Helper()
	status, _, body := r.call("GET", r.control+"/journal"+query, "")
	var report Report
	decoder := json.NewDecoder(strings.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&report); status != 200 || err != nil {
		r.t.Fatalf("GET /journal: %d %s (%v)", status, body, err)
	}
	return report
}

// raw opens a connection to the model port and sends bytes.
func (r *rig) raw(data string) net.Conn {
	r.t.Helper()
	connection, err := net.Dial("tcp", r.model)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = connection.Close() })
	_ = connection.SetDeadline(time.Now().Add(10 * time.Second))
	// A peer that closes early makes this fail, which some tests want.
	_, _ = io.Copy(connection, bytes.NewBufferString(data))
	return connection
}

// readAll is what the peer sent until it closed; a reset counts as a close.
// Then this side closes too.
func readAll(connection net.Conn) string {
	defer connection.Close()
	data, _ := io.ReadAll(connection)
	return string(data)
}

func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("not within 5 s: %s", what)
}

func steps(respond ...string) string {
	list := make([]string, len(respond))
	for i, response := range respond {
		list[i] = fmt.Sprintf(`{"name":"step-%d","respond":%s}`, i+1, response)
	}
	return `{"steps":[` + strings.Join(list, ",") + `]}`
}
