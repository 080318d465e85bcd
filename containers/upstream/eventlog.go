package main

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"
)

// eventLog writes one line per event, each begun with the UTC time.
type eventLog struct {
	mu  sync.Mutex
	out io.Writer
}

// event writes one line. A line that cannot be written is lost: the journal,
// not the log, is the record of what happened.
func (l *eventLog) event(format string, args ...any) {
	line := time.Now().UTC().AppendFormat(make([]byte, 0, 160), time.RFC3339Nano)
	line = append(line, ' ')
	line = fmt.Appendf(line, format, args...)
	line = append(line, '\n')
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.out.Write(line)
}

// Write lets net/http's own complaints join the log, a line each.
func (l *eventLog) Write(message []byte) (int, error) {
	l.event("http %q", bytes.TrimSpace(message))
	return len(message), nil
}
