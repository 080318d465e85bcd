package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds on one exchange of the model port. There is no bound on the time a
// connection is idle: closing one just as the gateway uses it again would look
// like a failure of the gateway.
const (
	headerTimeout  = 10 * time.Second
	bodyTimeout    = 60 * time.Second
	answerTimeout  = 60 * time.Second
	lingerTimeout  = 500 * time.Millisecond
	maxHeaderBytes = 1 << 20
)

// modelPort is what the gateway takes for the model provider.
type modelPort struct {
	journal  *Journal
	arrivals *arrivals
	log      *eventLog
	maxBody  int64 // bytes
}

// newModelServer makes the server of the model port. Requests in flight end
// with ctx.
func newModelServer(ctx context.Context, journal *Journal, events *eventLog, maxBody int64) *http.Server {
	arrivals := newArrivals(journal)
	return &http.Server{
		Handler:                      &modelPort{journal, arrivals, events, maxBody},
		DisableGeneralOptionsHandler: true, // OPTIONS * is an attempt like any other
		ReadHeaderTimeout:            headerTimeout,
		MaxHeaderBytes:               maxHeaderBytes,
		Protocols:                    onlyHTTP1(),
		ConnContext:                  arrivals.remember,
		ConnState:                    arrivals.watch,
		BaseContext:                  func(net.Listener) context.Context { return ctx },
		ErrorLog:                     log.New(events, "", 0),
	}
}

func onlyHTTP1() *http.Protocols {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	return protocols
}

// ServeHTTP journals one attempt and answers it by its step.
func (p *modelPort) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	headers := requestHeaders(r)
	bearer := bearerOf(r.Header["Authorization"])
	begun := p.journal.begin(arrival(r, headers), bearer)
	p.arrivals.claim(r.Context())
	if begun == nil {
		p.refuseDropped(w, r)
		return
	}
	body, err := p.receive(w, r, begun.attempt)
	if err != nil {
		p.journal.update(begun.attempt, func(a *Attempt) { a.Unmet = []string{"body"} })
		abort(w)
		p.end(begun.attempt, Answer{Action: actionClose}, err)
		return
	}
	unmet, response := choose(begun, observed{
		method: r.Method, target: r.RequestURI, host: r.Host, headers: headers,
		bearer: bearer, bearerIsNew: begun.bearerIsNew,
		body: body.kept, wholeBody: body.bytes == int64(len(body.kept)),
	})
	p.journal.update(begun.attempt, func(a *Attempt) {
		a.Matched = begun.step != nil && len(unmet) == 0
		a.Unmet = unmet
	})
	answer, err := perform(w, r, response)
	p.journal.answered(begun.attempt)
	if answer.Status != 0 {
		trailing := p.linger(w, r, response)
		p.journal.update(begun.attempt, func(a *Attempt) { a.Trailing = trailing })
	}
	p.end(begun.attempt, answer, err)
}

// arrival is an attempt as its headers tell it.
func arrival(r *http.Request, headers []headerPair) Attempt {
	attempt := Attempt{
		Method: r.Method, Target: r.RequestURI, Host: r.Host, Proto: r.Proto,
		Headers: headers, From: r.RemoteAddr,
	}
	if local, known := r.Context().Value(http.LocalAddrContextKey).(net.Addr); known {
		attempt.ArrivedOn = local.String()
	}
	return attempt
}

// requestHeaders lists the headers of r as they came, transfer-encoding too,
// which net/http keeps apart. Host is not among them.
func requestHeaders(r *http.Request) []headerPair {
	pairs := headerPairs(r.Header)
	for _, coding := range r.TransferEncoding {
		pairs = append(pairs, headerPair{"transfer-encoding", coding})
	}
	sortByName(pairs)
	return pairs
}

// headerPairs lists headers with lower-case names, sorted; repeated values
// stay in their order.
func headerPairs(header http.Header) []headerPair {
	pairs := []headerPair{}
	for name, values := range header {
		for _, value := range values {
			pairs = append(pairs, headerPair{strings.ToLower(name), value})
		}
	}
	sortByName(pairs)
	return pairs
}

func sortByName(pairs []headerPair) {
	slices.SortStableFunc(pairs, func(a, b headerPair) int { return strings.Compare(a[0], b[0]) })
}

// receive reads the body of an attempt into the journal.
func (p *modelPort) receive(w http.ResponseWriter, r *http.Request, attempt *Attempt) (bodyRead, error) {
	// A deadline for the body alone: the server's ReadTimeout would also end
	// the wait for a client that we let hang.
	controller := http.NewResponseController(w)
	_ = controller.SetReadDeadline(time.Now().Add(bodyTimeout))
	body, err := readBody(r.Body, p.maxBody)
	_ = controller.SetReadDeadline(time.Time{})
	p.journal.update(attempt, func(a *Attempt) {
		a.Body, a.BodyBytes, a.BodySHA256 = body.kept, body.bytes, body.sha256
		a.Truncated = err != nil || body.bytes > int64(len(body.kept))
	})
	return body, err
}

// choose finds what the attempt's step leaves unmet, and the response.
func choose(begun *begun, o observed) ([]string, *Response) {
	step := begun.step
	if step == nil {
		return []string{}, begun.after
	}
	unmet := step.Match.unmet(o)
	switch {
	case len(unmet) == 0:
		return unmet, step.Respond
	case step.Otherwise != nil:
		return unmet, step.Otherwise
	}
	return unmet, unmatched(step.Name, unmet)
}

var (
	errClientGone = errors.New("the client went away, or the upstream was stopped, before the answer")
	errNotSent    = errors.New("the answer could not be sent whole")
)

// perform answers, or does what the response wants instead. It returns what
// was sent.
func perform(w http.ResponseWriter, r *http.Request, response *Response) (Answer, error) {
	nothing := Answer{Action: response.Action}
	if !pause(r.Context(), response.delay()) {
		abort(w)
		return nothing, errClientGone
	}
	switch response.Action {
	case actionHang:
		<-r.Context().Done()
		abort(w)
		return nothing, nil
	case actionClose:
		abort(w)
		return nothing, nil
	}
	return send(w, response)
}

// pause waits for delay and tells whether ctx lasted that long.
func pause(ctx context.Context, delay time.Duration) bool {
	if delay == 0 {
		return true
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// abort closes the connection without an answer.
func abort(w http.ResponseWriter) {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = connection.Close()
	}
}

// send writes exactly the declared headers, content-length and the body, and
// flushes, so that an attempt counts as answered only when it is. A stream of
// events is chunked, as providers send it, and each event flushed.
func send(w http.ResponseWriter, response *Response) (Answer, error) {
	header := w.Header()
	header["Date"], header["Content-Type"] = nil, nil // nil: net/http adds none
	for _, pair := range response.Headers {
		header.Add(pair[0], pair[1])
	}
	parts := [][]byte{response.body}
	switch {
	case response.streams():
		parts = bytes.SplitAfter(response.body, []byte("\n\n"))
	case response.Status != http.StatusNoContent && response.Status != http.StatusNotModified:
		header.Set("Content-Length", strconv.Itoa(len(response.body)))
	}
	answer := Answer{Status: response.Status, Headers: headerPairs(header), Body: response.body}
	controller := http.NewResponseController(w)
	_ = controller.SetWriteDeadline(time.Now().Add(answerTimeout))
	w.WriteHeader(response.Status)
	for _, part := range parts {
		_, err := w.Write(part)
		if err = errors.Join(ignoreNoBody(err), controller.Flush()); err != nil {
			return answer, errors.Join(errNotSent, err)
		}
	}
	return answer, nil
}

// linger reads on after the answer until the gateway closes the connection,
// which it uses once. What comes is no request of its own: a plugin has made
// the body longer than its content-length.
func (p *modelPort) linger(w http.ResponseWriter, r *http.Request, response *Response) []byte {
	connection, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil
	}
	defer connection.Close()
	if response.streams() && r.Method != http.MethodHead {
		_, _ = io.WriteString(connection, "0\r\n\r\n") // the last chunk is left to the handler that hijacks
	}
	if tcp, is := connection.(*net.TCPConn); is && r.Close {
		_ = tcp.CloseWrite() // a client that asked for this waits for it
	}
	_ = connection.SetReadDeadline(time.Now().Add(lingerTimeout))
	defer context.AfterFunc(r.Context(), func() { _ = connection.SetReadDeadline(time.Now()) })()
	trailing, _ := io.ReadAll(io.LimitReader(buffered, p.maxBody))
	return trailing
}

// ignoreNoBody forgives a write to an answer that has no body by its status.
func ignoreNoBody(err error) error {
	if errors.Is(err, http.ErrBodyNotAllowed) {
		return nil
	}
	return err
}

// end closes an attempt in log and journal, in this order: whoever has seen
// the journal complete finds the log complete too.
func (p *modelPort) end(attempt *Attempt, answer Answer, err error) {
	if answer.Headers == nil {
		answer.Headers = []headerPair{}
	}
	if answer.Body == nil {
		answer.Body = []byte{}
	}
	cause := ""
	if err != nil {
		err = errors.New(strings.ReplaceAll(err.Error(), "\n", ": "))
		cause = " error=" + strconv.Quote(err.Error())
	}
	// Only this goroutine writes to the attempt, so reading needs no lock.
	p.log.event("model %d %s %q %d epoch=%d order=%d step=%q matched=%t unmet=%q action=%q%s",
		attempt.Sequence, attempt.Method, attempt.Target, answer.Status, attempt.Epoch, attempt.Order,
		attempt.Step, attempt.Matched, attempt.Unmet, answer.Action, cause)
	p.journal.finish(attempt, answer, err)
}

// refuseDropped answers an attempt that the full journal could not take.
func (p *modelPort) refuseDropped(w http.ResponseWriter, r *http.Request) {
	response := jsonResponse(http.StatusInsufficientStorage, map[string]string{"error": "the journal of this epoch is full"})
	_, _ = send(w, response)
	p.log.event("model - %s %q %d dropped", r.Method, r.RequestURI, response.Status)
}
