package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestControlRefuses(t *testing.T) {
	r := newRig(t, 1000)
	epoch := r.put(`{}`)
	for _, c := range []struct {
		method, target, body string
		status               int
		want                 string
	}{
		{"GET", "/nowhere", "", 404, "is not a control path; expected one of /counts, /healthz, /journal, /listeners, /reset, /script"},
		{"GET", "/script", "", 405, "expected PUT"},
		{"PUT", "/script", `{"bad":1}`, 400, `unknown field "bad"`},
		{"POST", "/reset", `{"bad":1}`, 400, "expected none"},
		{"GET", "/journal?epoch=x", "", 400, `epoch is "x"`},
		{"GET", "/journal?settle_ms=-1", "", 400, `settle_ms is "-1"`},
		{"GET", "/journal?settle_ms=30001", "", 400, "expected 0 to 30000"},
		{"GET", "/journal?epock=1", "", 400, `"epock"`},
		{"GET", "/journal?epoch=1&epoch=1", "", 400, "once each"},
		{"GET", fmt.Sprintf("/journal?epoch=%d", epoch+1), "", 409, "is the current one"},
	} {
		status, header, body := r.call(c.method, r.control+c.target, c.body)
		var reply struct{ Error string }
		if err := json.Unmarshal([]byte(body), &reply); err != nil || header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: not JSON: %s", c.method, c.target, body)
		}
		if status != c.status || !strings.Contains(reply.Error, c.want) {
			t.Errorf("%s %s: got %d %s, want %d %s", c.method, c.target, status, reply.Error, c.status, c.want)
		}
	}
	if now := r.journal("").Epoch; now != epoch {
		t.Errorf("a refused script began epoch %d", now)
	}
}

func TestResetKeepsTheScript(t *testing.T) {
	r := newRig(t, 1000)
	epoch := r.put(steps(`{"status":201}`, `{"status":202}`))
	for i := range 2 {
		if status, _, _ := r.call("GET", r.model+"/", ""); status != 201 {
			t.Errorf("first of epoch: got %d", status)
		}
		r.journal("")
		_, _, body := r.call("POST", r.control+"/reset", "")
		if want := fmt.Sprintf("{\"epoch\":%d}\n", epoch+uint64(i)+1); body != want {
			t.Errorf("got %s, want %s", body, want)
		}
	}
	report := r.journal("")
	if len(report.Attempts) != 0 || report.Attempts == nil || report.Late == nil {
		t.Errorf("%+v", report)
	}
}

func TestCountsAndHealth(t *testing.T) {
	r := newRig(t, 1000)
	r.put(steps(`{"status":200}`))
	for range 3 {
		r.call("GET", r.model+"/", "")
	}
	r.journal("")
	r.put(steps(`{"status":200}`))
	r.call("GET", r.model+"/", "")
	r.journal("")
	_, _, body := r.call("GET", r.control+"/counts", "")
	var counts CountsReport
	if err := json.Unmarshal([]byte(body), &counts); err != nil {
		t.Fatal(err)
	}
	want := CountsReport{Epoch: 2, SinceStart: Counts{Attempts: 4, Matched: 2, Unmatched: 2}, InEpoch: Counts{Attempts: 1, Matched: 1}}
	if counts != want {
		t.Errorf("got %+v, want %+v", counts, want)
	}
	if status, _, body := r.call("GET", r.control+"/healthz", ""); status != 200 || body != "{\"status\":\"ok\"}\n" {
		t.Errorf("%d %s", status, body)
	}
}

func TestPutListenersReplacesTheFile(t *testing.T) {
	r := newRig(t, 1000)
	for _, content := range []string{`{"resources":[]}`, `{}`} {
		if status, _, body := r.call("PUT", r.control+"/listeners", content); status != 200 {
			t.Fatalf("got %d %s", status, body)
		}
		if found, err := os.ReadFile(r.listeners); err != nil || string(found) != content {
			t.Errorf("the file holds %q (%v), want %q", found, err, content)
		}
		if _, err := os.Stat(r.listeners + ".next"); !os.IsNotExist(err) {
			t.Error("the draft is still there")
		}
	}
}
