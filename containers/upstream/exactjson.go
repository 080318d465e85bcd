package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

// number is a JSON number in one canonical spelling, so that two are equal as
// numbers exactly when they are equal as strings: 1, 1.0 and 10e-1 are one
// number, and large integers are never rounded.
type number string

// parseExact parses exactly one JSON value into map[string]any, []any, string,
// bool, nil and number. What readers might understand differently is an error:
// duplicate keys, trailing data, bytes that are not UTF-8.
func parseExact(data []byte) (any, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("it is not UTF-8")
	}
	// Unmarshal checks the syntax of the whole and its depth (10,000), which
	// the token reader below does not. It also refuses trailing data.
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	return parseValue(decoder)
}

func parseValue(decoder *json.Decoder) (any, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Delim:
		if token == '{' {
			return parseObject(decoder)
		}
		return parseArray(decoder)
	case json.Number:
		return canonical(token.String()), nil
	}
	return token, nil
}

func parseObject(decoder *json.Decoder) (any, error) {
	object := map[string]any{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		key, _ := token.(string)
		if _, twice := object[key]; twice {
			return nil, fmt.Errorf("the key %q is there twice", key)
		}
		if object[key], err = parseValue(decoder); err != nil {
			return nil, err
		}
	}
	_, err := decoder.Token() // the closing brace
	return object, err
}

func parseArray(decoder *json.Decoder) (any, error) {
	array := []any{}
	for decoder.More() {
		value, err := parseValue(decoder)
		if err != nil {
			return nil, err
		}
		array = append(array, value)
	}
	_, err := decoder.Token() // the closing bracket
	return array, err
}

// canonical spells a valid JSON number as sign, digits without outer zeros,
// and a decimal exponent. It works on the text and never expands an exponent,
// so 1e999999999 costs nothing.
func canonical(text string) number {
	sign := ""
	rest, negative := strings.CutPrefix(text, "-")
	if negative {
		sign = "-"
	}
	mantissa, exponentText := rest, "0"
	if at := strings.IndexAny(rest, "eE"); at >= 0 {
		mantissa, exponentText = rest[:at], rest[at+1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return "0"
	}
	exponent, err := strconv.ParseInt(exponentText, 10, 64)
	const sane = int64(1) << 60 // so that the sums below cannot overflow
	if err != nil || exponent > sane || exponent < -sane {
		return number(text) // too large to reason about: equal only to itself
	}
	trimmed := strings.TrimRight(digits, "0")
	exponent += int64(len(digits)-len(trimmed)) - int64(len(fraction))
	return number(sign + trimmed + "e" + strconv.FormatInt(exponent, 10))
}

// equalExact compares two values of parseExact.
func equalExact(a, b any) bool { return reflect.DeepEqual(a, b) }
