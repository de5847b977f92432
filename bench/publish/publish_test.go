package publish

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"proxylab/bench/events"
)

// start runs a publisher whose Services answer when answers says so.
func start(t *testing.T, answers func(address string) bool) (stdin io.WriteCloser, results <-chan events.LBPublished, ended <-chan error) {
	t.Helper()
	in, toIn := io.Pipe()
	fromOut, out := io.Pipe()
	p := &publisher{out: json.NewEncoder(out), slots: make(chan struct{}, 2), ask: func(_ context.Context, _, address string, _ int) (string, error) {
		if !answers(address) {
			return "", errors.New("refused")
		}
		return "web", nil
	}}
	done, found := make(chan error, 1), make(chan events.LBPublished, 100)
	go func() {
		err := p.run(t.Context(), in)
		_ = out.Close()
		done <- err
	}()
	go func() {
		for lines := bufio.NewScanner(fromOut); lines.Scan(); {
			var e events.Event
			if json.Unmarshal(lines.Bytes(), &e) == nil && e.LBPublished != nil {
				found <- *e.LBPublished
			}
		}
		close(found)
	}()
	return toIn, found, done
}

func tell(t *testing.T, w io.Writer, v any) {
	t.Helper()
	if err := json.NewEncoder(w).Encode(v); err != nil {
		t.Fatal(err)
	}
}

func TestFirstAnswerCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		up := map[string]bool{}
		in, found, ended := start(t, func(a string) bool { mu.Lock(); defer mu.Unlock(); return up[a] })
		tell(t, in, Spec{})
		created := time.Now()
		time.Sleep(time.Second) // it took so long to get an address
		tell(t, in, Target{Service: "default/a", Created: true, Since: created, AddressSeconds: 1, Address: "10.0.0.1:80", Kind: "http"})
		tell(t, in, Target{Service: "default/b", Created: true, Since: created, AddressSeconds: 1, Address: "10.0.0.2:80", Kind: "http"})
		time.Sleep(time.Second)
		mu.Lock()
		up["10.0.0.1:80"] = true
		mu.Unlock()
		a := <-found
		if a.Service != "default/a" || a.Error != "" || *a.AddressSeconds != 1 || a.Seconds < 2 || a.Seconds > 2+interval.Seconds() {
			t.Errorf("found %+v", a)
		}
		time.Sleep(time.Second)
		if err := in.Close(); err != nil {
			t.Fatal(err)
		}
		if b := <-found; b.Service != "default/b" || b.Error == "" || b.Seconds < 3 {
			t.Errorf("found %+v", b)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestWhatIsNoTargetIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, _, ended := start(t, func(string) bool { return true })
		tell(t, in, Spec{})
		tell(t, in, []int{1})
		if err := <-ended; err == nil {
			t.Error("taken")
		}
		_ = in.Close()
	})
}
