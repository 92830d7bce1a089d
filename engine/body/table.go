package body

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"

	"operon/spec/value"
)

// readCSV makes an object of each row, keyed by the header, all values strings.
func readCSV(text []byte, limit int) ([]value.Value, error) {
	text = bytes.TrimPrefix(text, []byte("\xEF\xBB\xBF")) // spreadsheets write one
	if err := checkUTF8(text); err != nil {
		return nil, err
	}
	r := csv.NewReader(bytes.NewReader(text))
	r.ReuseRecord = true
	var t *table
	for {
		row, err := r.Read()
		if err == io.EOF {
			return t.items(), nil
		}
		if err != nil {
			return nil, csvError(err)
		}
		if t == nil {
			if t, err = newTable(row, 1); err != nil {
				return nil, err
			}
			continue
		}
		if len(t.ends) == limit {
			return nil, tooMany(limit)
		}
		t.add(row)
	}
}

func csvError(err error) error {
	p, ok := errors.AsType[*csv.ParseError](err)
	if !ok {
		return err
	}
	if errors.Is(err, csv.ErrFieldCount) {
		return fmt.Errorf("line %d has another number of fields than the header", p.Line)
	}
	return fmt.Errorf("line %d, byte %d: %w", p.Line, p.Column, p.Err)
}

// readTSV is readCSV for fields between tabs, in which quotes mean nothing.
func readTSV(text []byte, limit int) ([]value.Value, error) {
	text = bytes.TrimPrefix(text, []byte("\xEF\xBB\xBF"))
	if err := checkUTF8(text); err != nil {
		return nil, err
	}
	var t *table
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if line == "" {
			continue
		}
		row := strings.Split(line, "\t")
		if t == nil {
			var err error
			if t, err = newTable(row, number); err != nil {
				return nil, err
			}
			continue
		}
		if len(row) != len(t.keys) {
			return nil, fmt.Errorf("line %d has %d fields, the header %d", number, len(row), len(t.keys))
		}
		if len(t.ends) == limit {
			return nil, tooMany(limit)
		}
		t.add(row)
	}
	return t.items(), nil
}

// table writes rows as JSON objects into one buffer.
type table struct {
	keys [][]byte // each with what comes before and after it
	buf  []byte
	ends []int
}

func newTable(header []string, line int) (*table, error) {
	t := &table{}
	seen := map[string]bool{}
	for _, name := range header {
		if seen[name] {
			return nil, fmt.Errorf("line %d: the header names %q twice", line, name)
		}
		seen[name] = true
		t.keys = append(t.keys, append(value.AppendString(nil, name), ':'))
	}
	return t, nil
}

func (t *table) add(row []string) {
	t.buf = append(t.buf, '{')
	for i, field := range row {
		if i > 0 {
			t.buf = append(t.buf, ',')
		}
		t.buf = append(t.buf, t.keys[i]...)
		t.buf = value.AppendString(t.buf, field)
	}
	t.buf = append(t.buf, '}')
	t.ends = append(t.ends, len(t.buf))
}

// items are the rows; an empty file has none.
func (t *table) items() []value.Value {
	if t == nil {
		return nil
	}
	return cutUp(t.buf, t.ends)
}
