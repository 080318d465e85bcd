package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// bodyRead is a request body as far as it was read.
type bodyRead struct {
	kept   []byte // at most the limit
	bytes  int64  // read, kept or not
	sha256 string // of the whole body, hexadecimal; "" when its end was not seen
}

// readBody keeps up to limit bytes of body, and reads and hashes on to four
// times that. An error means that the end was not seen: the client broke off,
// or the body is longer still.
func readBody(body io.Reader, limit int64) (bodyRead, error) {
	hash := sha256.New()
	kept, err := io.ReadAll(io.LimitReader(body, limit))
	hash.Write(kept)
	read := bodyRead{kept: kept, bytes: int64(len(kept))}
	if err == nil && read.bytes == limit {
		var more int64
		more, err = io.Copy(hash, io.LimitReader(body, 3*limit))
		read.bytes += more
		if err == nil && more == 3*limit {
			err = expectEnd(body, read.bytes)
		}
	}
	if err != nil {
		return read, fmt.Errorf("the request body was not read to its end: %w", err)
	}
	read.sha256 = hex.EncodeToString(hash.Sum(nil))
	return read, nil
}

func expectEnd(body io.Reader, read int64) error {
	var one [1]byte
	_, err := io.ReadFull(body, one[:])
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil:
		return fmt.Errorf("it is longer than %d bytes, four times --max-body", read)
	}
	return err
}
