package events

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxLine is far more than any event takes (a scenario with all its manifests is in one): a longer line means that
// the file is no log.
const maxLine = 64 << 20

// readerBytes is how much of a log is read at a time.
const readerBytes = 64 << 10

// LineError is a line of a log that is whole but is no event.
type LineError struct {
	Line int // from 1
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d is not an event: %v", e.Line, e.Err) }

func (e *LineError) Unwrap() error { return e.Err }

// Reader reads a log.
//
// It is tolerant of what the life of a log brings: a last line that was cut off, and fields and payloads that a
// newer version wrote (an event with such a payload has an empty Kind). It is strict about everything else.
type Reader struct {
	in        *bufio.Reader
	line      int
	truncated bool
	err       error // what Next returns from now on
}

// NewReader reads from in.
func NewReader(in io.Reader) *Reader {
	return &Reader{in: bufio.NewReaderSize(in, readerBytes)}
}

// Next returns the next event, or io.EOF after the last, or a *LineError, or what went wrong with reading.
// After an error it returns the same again.
func (r *Reader) Next() (Event, error) {
	for r.err == nil {
		text, err := r.readLine()
		if err != nil && !errors.Is(err, io.EOF) {
			r.err = err
			break
		}
		whole := err == nil
		if !whole {
			r.err = io.EOF
		}
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		var e Event
		if err := Unmarshal(text, &e); err == nil && text[0] == '{' {
			return e, nil
		} else if whole {
			r.err = &LineError{Line: r.line, Err: describe(err)}
		} else {
			r.truncated = true
		}
	}
	return Event{}, r.err
}

// Unmarshal takes one line of a log apart. What encoding/json accepts of a line, it accepts as well, but for names in another
// case, and in less than half the time: hours of a log are to open at once.
func Unmarshal(line []byte, e *Event) error {
	return json.Unmarshal(line, e, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

func describe(err error) error {
	if err == nil { // JSON, but "null"
		return errors.New("not a JSON object")
	}
	return err
}

// readLine returns a line without its end. With io.EOF comes what follows the last line end, which may be nothing.
func (r *Reader) readLine() ([]byte, error) {
	r.line++
	var long []byte
	for {
		part, err := r.in.ReadSlice('\n')
		if len(long)+len(part) > maxLine {
			return nil, &LineError{Line: r.line, Err: fmt.Errorf("longer than %d bytes", maxLine)}
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			if long != nil {
				part = append(long, part...)
			}
			if err != nil && !errors.Is(err, io.EOF) {
				return nil, fmt.Errorf("read line %d of the log: %w", r.line, err)
			}
			return bytes.TrimSuffix(part, []byte("\n")), err
		}
		long = append(long, part...)
	}
}

// Truncated says, once Next has returned io.EOF, whether the log ends in the middle of a line.
func (r *Reader) Truncated() bool { return r.truncated }

// All is Next as a sequence, which ends after the last event or after an error.
func (r *Reader) All() iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			e, err := r.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Read is the events of a log, up to its end, to the place where it was cut off, or to the first error.
func Read(in io.Reader) iter.Seq2[Event, error] { return NewReader(in).All() }

// Log is a whole log.
type Log struct {
	Path      string
	Events    []Event
	Truncated bool // it ends in the middle of a line
}

// ReadFile reads a log. Path is the run's directory or the file itself. With an error comes what was read before it.
func ReadFile(path string) (*Log, error) {
	file, err := Locate(path)
	if err != nil {
		return &Log{Path: path}, err
	}
	f, err := os.Open(file)
	if err != nil {
		return &Log{Path: file}, fmt.Errorf("open the event log: %w", err)
	}
	defer f.Close()
	log, r := &Log{Path: file}, NewReader(f)
	for e, err := range r.All() {
		if err != nil {
			return log, fmt.Errorf("%s: %w", file, err)
		}
		log.Events = append(log.Events, e)
	}
	log.Truncated = r.Truncated()
	return log, nil
}

// Locate returns the path of the log that path means: the log in that directory, or path itself.
func Locate(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("find the run: %w", err)
	}
	if !info.IsDir() {
		return path, nil
	}
	file := filepath.Join(path, FileName)
	if _, err := os.Stat(file); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("%s is not the directory of a run: it holds no %s", path, FileName)
		}
		return "", fmt.Errorf("find the run: %w", err)
	}
	return file, nil
}
