package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const retryScript = `{"steps":[
	{"name":"first","match":{"bearer_in":["dummy-key-a","dummy-key-b"]},"respond":{"status":503,"headers":[["content-type","application/json"]],"json_body":{"error":"busy"}}},
	{"name":"retry","match":{"method":"POST","path":"/v1/videos/text2video?trace=1","bearer_in":["dummy-key-a","dummy-key-b"],"bearer_differs_from_previous":true,"json_body":{"model_name":"up-m1"}},"respond":{"status":200,"headers":[["x-b","2"],["x-a","1"],["x-b","3"]],"json_body":{"z":1.0,"a":2}}}
]}`

func TestRetryAccepted(t *testing.T) {
	r := newRig(t, 1<<20)
	epoch := r.put(retryScript)
	target := r.model + "/v1/videos/text2video?trace=1"
	status, header, body := r.call("POST", target, `{"model_name":"up-m1"}`, "Authorization", "Bearer dummy-key-b")
	if status != 503 || body != `{"error":"busy"}` || len(header) != 2 || header.Get("Content-Type") != "application/json" {
		t.Errorf("first: %d %v %s", status, header, body)
	}
	status, header, body = r.call("POST", target, `{"model_name":"up-m1"}`, "Authorization", "Bearer dummy-key-a", "X-Z", "1", "x-z", "2")
	if status != 200 || body != `{"z":1.0,"a":2}` || !slices.Equal(header["X-B"], []string{"2", "3"}) || len(header) != 3 {
		t.Errorf("retry: %d %v %s", status, header, body)
	}
	report := r.journal(fmt.Sprintf("?epoch=%d", epoch))
	if !report.Complete || report.InFlight != 0 || len(report.Attempts) != 2 {
		t.Fatalf("%+v", report)
	}
	first, retry := report.Attempts[0], report.Attempts[1]
	digest := sha256.Sum256([]byte(`{"model_name":"up-m1"}`))
	if first.Order != 1 || retry.Order != 2 || retry.Sequence != first.Sequence+1 || retry.Epoch != epoch ||
		retry.Method != "POST" || retry.Target != "/v1/videos/text2video?trace=1" || retry.Host != r.model ||
		retry.Proto != "HTTP/1.1" || string(retry.Body) != `{"model_name":"up-m1"}` || retry.BodyBytes != 22 ||
		retry.BodySHA256 != hex.EncodeToString(digest[:]) || retry.Truncated || retry.ArrivedOn != r.model ||
		!strings.HasPrefix(retry.From, "127.0.0.1:") || retry.Step != "retry" || !retry.Matched || len(retry.Unmet) != 0 {
		t.Errorf("%+v", retry)
	}
	wantHeaders := []headerPair{{"accept-encoding", "gzip"}, {"authorization", "Bearer dummy-key-a"}, {"content-length", "22"},
		{"user-agent", "Go-http-client/1.1"}, {"x-z", "1"}, {"x-z", "2"}}
	if !reflect.DeepEqual(retry.Headers, wantHeaders) {
		t.Errorf("headers: %v", retry.Headers)
	}
	wantAnswer := &Answer{200, []headerPair{{"content-length", "15"}, {"x-a", "1"}, {"x-b", "2"}, {"x-b", "3"}}, []byte(`{"z":1.0,"a":2}`), ""}
	if !reflect.DeepEqual(retry.Answered, wantAnswer) {
		t.Errorf("answered: %+v", retry.Answered)
	}
	received, err := time.Parse(time.RFC3339Nano, retry.ReceivedAt)
	if err != nil || received.Location() != time.UTC || time.Since(received) > time.Minute {
		t.Errorf("received_at: %s", retry.ReceivedAt)
	}
	if first.ReceivedMonoNS <= 0 || first.AnsweredMonoNS < first.ReceivedMonoNS || retry.ReceivedMonoNS < first.AnsweredMonoNS {
		t.Errorf("times: %d %d %d", first.ReceivedMonoNS, first.AnsweredMonoNS, retry.ReceivedMonoNS)
	}
}

// TestRetryRefused is #4396 in small: the retry goes to the wrong path with
// the wrong field, and the same key.
func TestRetryRefused(t *testing.T) {
	r := newRig(t, 1<<20)
	r.put(retryScript)
	r.call("POST", r.model+"/v1/videos/text2video?trace=1", `{"model_name":"up-m1"}`, "Authorization", "Bearer dummy-key-a")
	status, _, body := r.call("POST", r.model+"/v1/videos?trace=1", `{"model":"up-m1"}`, "Authorization", "Bearer dummy-key-a")
	if status != 400 || body != `{"error":"attempt did not match","step":"retry","unmet":["path","bearer_differs_from_previous","json_body"]}` {
		t.Errorf("%d %s", status, body)
	}
	status, _, body = r.call("GET", r.model+"/third", "")
	if status != 500 || body != `{"error":"unexpected attempt"}` {
		t.Errorf("%d %s", status, body)
	}
	report := r.journal("")
	if second := report.Attempts[1]; second.Matched || !slices.Equal(second.Unmet, []string{"path", "bearer_differs_from_previous", "json_body"}) {
		t.Errorf("%+v", second)
	}
	if third := report.Attempts[2]; third.Matched || third.Step != "after" || len(third.Unmet) != 0 || len(third.Body) != 0 {
		t.Errorf("%+v", third)
	}
}

func TestOtherwiseAndAfter(t *testing.T) {
	r := newRig(t, 1<<20)
	r.put(`{"steps":[{"name":"a","match":{"method":"GET"},"respond":{"status":200},"otherwise":{"status":418}}],"after":{"status":204}}`)
	if status, header, body := r.call("POST", r.model+"/", ""); status != 418 || body != "" || header.Get("Content-Length") != "0" || len(header) != 1 {
		t.Errorf("otherwise: %d %v %q", status, header, body)
	}
	if status, header, _ := r.call("POST", r.model+"/", ""); status != 204 || len(header) != 0 {
		t.Errorf("after: %d %v", status, header)
	}
	if status, _, body := r.call("HEAD", r.model+"/", ""); status != 204 || body != "" {
		t.Errorf("HEAD: %d %q", status, body)
	}
}

// TestTargetIsRaw: nothing is cleaned, decoded or answered by net/http itself.
func TestTargetIsRaw(t *testing.T) {
	r := newRig(t, 1<<20)
	targets := []string{"/a//b/../c?x=%2f&y=;", "*", "http://other.example/p?q", "/%C3%A4"}
	r.put(`{"after":{"status":200}}`)
	for _, target := range targets {
		connection := r.raw("OPTIONS " + target + " HTTP/1.1\r\nHost: h.example\r\nConnection: close\r\n\r\n")
		if answer := readAll(connection); answer != "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" {
			t.Errorf("%s: %q", target, answer)
		}
	}
	for i, attempt := range r.journal("").Attempts {
		if attempt.Target != targets[i] {
			t.Errorf("got %s, want %s", attempt.Target, targets[i])
		}
	}
}

func TestChunkedBody(t *testing.T) {
	r := newRig(t, 1<<20)
	r.put(`{"steps":[{"name":"a","match":{"headers":{"transfer-encoding":"chunked"},"json_body":{"a":1}},"respond":{"status":200}}]}`)
	r.raw("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{\"a\"\r\n3\r\n:1}\r\n0\r\n\r\n").Read(make([]byte, 1))
	attempt := r.journal("").Attempts[0]
	if !attempt.Matched || string(attempt.Body) != `{"a":1}` || !slices.Contains(attempt.Headers, headerPair{"transfer-encoding", "chunked"}) {
		t.Errorf("%+v", attempt)
	}
}

// TestStream: a stream of events is chunked, an event a chunk, and ends; what
// follows the request is seen as ever.
func TestStream(t *testing.T) {
	r := newRig(t, 1<<20)
	r.put(`{"after":{"status":200,"headers":[["content-type","text/event-stream; charset=utf-8"]],"body_base64":"ZGF0YTogYQoKZGF0YTogYgoK"}}`)
	connection := r.raw("POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{} more")
	want := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nConnection: close\r\n" +
		"Transfer-Encoding: chunked\r\n\r\n9\r\ndata: a\n\n\r\n9\r\ndata: b\n\n\r\n0\r\n\r\n"
	if got := readAll(connection); got != want {
		t.Errorf("got %q", got)
	}
	report := r.journal("")
	if !report.Complete || string(report.Attempts[0].Trailing) != " more" || string(report.Attempts[0].Answered.Body) != "data: a\n\ndata: b\n\n" {
		t.Errorf("%+v", report)
	}
}

// TestTrailing: what follows a body on its connection belongs to that attempt,
// whether it came with it or after the answer, and is no attempt of its own.
func TestTrailing(t *testing.T) {
	r := newRig(t, 1<<20)
	for _, more := range []string{"", " more", "POST / HTTP/1.1\r\nHost: h\r\n\r\n"} {
		for _, late := range []bool{false, true} {
			r.put(`{"after":{"status":200}}`)
			request := "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}"
			if !late {
				request += more
			}
			connection := r.raw(request)
			connection.Read(make([]byte, 1))
			if late {
				connection.Write([]byte(more))
			}
			connection.Close()
			report := r.journal("")
			if !report.Complete || len(report.Attempts) != 1 {
				t.Fatalf("%q: complete %t, %d attempts", more, report.Complete, len(report.Attempts))
			}
			if attempt := report.Attempts[0]; string(attempt.Body) != "{}" || string(attempt.Trailing) != more {
				t.Errorf("%q late %t: body %q, trailing %q", more, late, attempt.Body, attempt.Trailing)
			}
		}
	}
}

func TestLongBodies(t *testing.T) {
	const limit = 1000
	for _, c := range []struct {
		bytes                     int
		kept                      int
		truncated, hashed, answer bool
	}{
		{limit - 1, limit - 1, false, true, true},
		{limit, limit, false, true, true},
		{limit + 1, limit, true, true, true},
		{4 * limit, limit, true, true, true},
		{4*limit + 1, limit, true, false, false},
		{400 * limit, limit, true, false, false},
	} {
		t.Run(fmt.Sprint(c.bytes), func(t *testing.T) {
			r := newRig(t, limit)
			r.put(`{"after":{"status":200}}`)
			body := strings.Repeat("x", c.bytes)
			connection := r.raw(fmt.Sprintf("POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", c.bytes, body))
			if answered := strings.HasPrefix(readAll(connection), "HTTP/1.1 200"); answered != c.answer {
				t.Errorf("answered: got %t", answered)
			}
			report := r.journal("")
			attempt, digest := report.Attempts[0], sha256.Sum256([]byte(body))
			if len(attempt.Body) != c.kept || attempt.Truncated != c.truncated || report.Complete == c.truncated {
				t.Errorf("kept %d, truncated %t, complete %t", len(attempt.Body), attempt.Truncated, report.Complete)
			}
			if c.hashed && (attempt.BodySHA256 != hex.EncodeToString(digest[:]) || attempt.BodyBytes != int64(c.bytes)) {
				t.Errorf("sha256 %q, bytes %d", attempt.BodySHA256, attempt.BodyBytes)
			}
			if !c.hashed && (attempt.BodySHA256 != "" || !strings.Contains(attempt.Error, "longer than 4000 bytes") ||
				attempt.Answered.Action != "close" || !slices.Equal(attempt.Unmet, []string{"body"})) {
				t.Errorf("%+v", attempt)
			}
		})
	}
}

func TestBrokenBodies(t *testing.T) {
	for name, request := range map[string]string{
		"client leaves": "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n{}",
		"bad chunk":     "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\nzz\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1000)
			r.put(`{"after":{"status":200}}`)
			connection := r.raw(request)
			_ = connection.(*net.TCPConn).CloseWrite()
			if answer := readAll(connection); answer != "" {
				t.Errorf("answered %q", answer)
			}
			report := r.journal("")
			if attempt := report.Attempts[0]; report.Complete || attempt.Matched || !attempt.Truncated || attempt.Error == "" || string(attempt.Body) != "{}" {
				t.Errorf("%+v", attempt)
			}
		})
	}
}

// TestMalformedIsCounted: what net/http refuses by itself does not go unseen.
func TestMalformedIsCounted(t *testing.T) {
	for name, request := range map[string]string{
		"HTTP/2 preface, garbled": "PRI * HTTP/2.0\r\n\r\nxx\r\n\r\n",
		"TLS hello":               "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
		"no host":                 "GET / HTTP/1.1\r\n\r\n",
		"huge headers":            "GET / HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("x", maxHeaderBytes+10_000) + "\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1000)
			r.put(`{}`)
			connection := r.raw(request)
			_ = connection.(*net.TCPConn).CloseWrite()
			readAll(connection)
			report := r.journal("?settle_ms=5000")
			if name == "HTTP/2 preface, garbled" { // net/http hands it to the handler
				if len(report.Attempts) != 1 || report.Attempts[0].Proto != "HTTP/2.0" {
					t.Errorf("%+v", report)
				}
				return
			}
			if report.Malformed != 1 || report.Complete || report.InFlight != 0 || len(report.Attempts) != 0 {
				t.Errorf("%+v", report)
			}
		})
	}
	t.Run("a probe that only connects", func(t *testing.T) {
		r := newRig(t, 1000)
		r.put(`{}`)
		_ = r.raw("").Close()
		if report := r.journal(""); report.Malformed != 0 || !report.Complete {
			t.Errorf("%+v", report)
		}
	})
}

func TestClose(t *testing.T) {
	r := newRig(t, 1000)
	r.put(steps(`{"action":"close"}`))
	if answer := readAll(r.raw("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}")); answer != "" {
		t.Errorf("answered %q", answer)
	}
	report := r.journal("")
	if attempt := report.Attempts[0]; !report.Complete || attempt.Answered.Action != "close" || attempt.Answered.Status != 0 || !attempt.Matched {
		t.Errorf("%+v", attempt)
	}
}

func TestHang(t *testing.T) {
	r := newRig(t, 1000)
	epoch := r.put(steps(`{"action":"hang"}`))
	connection := r.raw("POST /h HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}")
	eventually(t, "the body is in the journal", func() bool {
		report := r.journal("?settle_ms=0")
		return len(report.Attempts) == 1 && report.Attempts[0].Matched
	})
	begin := time.Now()
	report := r.journal("?settle_ms=30")
	if waited := time.Since(begin); waited < 30*time.Millisecond || report.Complete || report.InFlight != 1 {
		t.Errorf("after %v: %+v", waited, report)
	}
	if attempt := report.Attempts[0]; attempt.Answered != nil || string(attempt.Body) != "{}" || attempt.Step != "step-1" {
		t.Errorf("%+v", attempt)
	}
	_ = connection.Close()
	report = r.journal(fmt.Sprintf("?epoch=%d&settle_ms=5000", epoch))
	if !report.Complete || report.Attempts[0].Answered.Action != "hang" {
		t.Errorf("%+v", report)
	}
}

func TestHangDoesNotBlockShutdown(t *testing.T) {
	r := newRig(t, 1000)
	r.put(steps(`{"action":"hang"}`, `{"status":200,"delay_ms":60000}`))
	hanging := r.raw("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	eventually(t, "one in flight", func() bool { return r.journal("?settle_ms=0").InFlight == 1 })
	delayed := r.raw("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	eventually(t, "two in flight", func() bool { return r.journal("?settle_ms=0").InFlight == 2 })
	begin := time.Now()
	r.stop()
	if a, b := readAll(hanging), readAll(delayed); a+b != "" || time.Since(begin) > time.Second {
		t.Errorf("answered %q %q after %v", a, b, time.Since(begin))
	}
}

func TestDelay(t *testing.T) {
	r := newRig(t, 1000)
	r.put(steps(`{"status":200,"delay_ms":50}`))
	begin := time.Now()
	if status, _, _ := r.call("GET", r.model+"/", ""); status != 200 || time.Since(begin) < 50*time.Millisecond {
		t.Errorf("%d after %v", status, time.Since(begin))
	}
}

func TestClientLeavesDuringDelay(t *testing.T) {
	r := newRig(t, 1000)
	r.put(steps(`{"status":200,"delay_ms":60000}`))
	connection := r.raw("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	eventually(t, "in flight", func() bool { return r.journal("?settle_ms=0").InFlight == 1 })
	_ = connection.Close()
	report := r.journal("?settle_ms=5000")
	if attempt := report.Attempts[0]; attempt.Answered.Status != 0 || !strings.Contains(attempt.Error, "went away") {
		t.Errorf("%+v", attempt)
	}
}

func TestLateAttempt(t *testing.T) {
	r := newRig(t, 1000)
	old := r.put(steps(`{"status":200,"delay_ms":100}`))
	answered := make(chan string)
	connection := r.raw("GET /old HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
	go func() { answered <- readAll(connection) }()
	eventually(t, "in flight", func() bool { return r.journal("?settle_ms=0").InFlight == 1 })
	r.put(steps(`{"status":201}`))
	report := r.journal("?settle_ms=5000")
	if len(report.Attempts) != 0 || len(report.Late) != 1 || report.Late[0].Epoch != old || report.Late[0].Answered.Status != 200 {
		t.Errorf("%+v", report)
	}
	if answer := <-answered; !strings.HasPrefix(answer, "HTTP/1.1 200") {
		t.Errorf("answered by another epoch's script: %q", answer)
	}
}

func TestManyAtOnce(t *testing.T) {
	r := newRig(t, 1000)
	r.put(`{"after":{"status":200,"json_body":1}}`)
	const clients, each = 32, 20
	var all sync.WaitGroup
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for range clients {
		all.Add(1)
		go func() {
			defer all.Done()
			for range each {
				response, err := client.Post("http://"+r.model+"/", "a/b", strings.NewReader("{}"))
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
				r.client.Get("http://" + r.control + "/counts")
			}
		}()
	}
	all.Wait()
	report := r.journal("")
	if !report.Complete || len(report.Attempts) != clients*each {
		t.Fatalf("complete %t, %d attempts", report.Complete, len(report.Attempts))
	}
	var last int64
	for i, attempt := range report.Attempts {
		if attempt.Order != i+1 || attempt.ReceivedMonoNS < last {
			t.Fatalf("attempt %d has order %d at %d after %d", i, attempt.Order, attempt.ReceivedMonoNS, last)
		}
		last = attempt.ReceivedMonoNS
	}
}

// BenchmarkCell is what one cell costs: script, one model request, journal.
func BenchmarkCell(b *testing.B) {
	r := newRig(b, 1<<20)
	for b.Loop() {
		epoch := r.put(retryScript)
		r.call("POST", r.model+"/v1/videos", `{"model":"m"}`, "Authorization", "Bearer dummy-key-a")
		if report := r.journal(fmt.Sprintf("?epoch=%d", epoch)); !report.Complete || len(report.Attempts) != 1 {
			b.Fatalf("%+v", report)
		}
	}
}
