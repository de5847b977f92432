package controlplane

import (
	"errors"
	"io"
	"net"
	"testing"

	"go.uber.org/goleak"
)

func TestMergedListener(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	all := make([]net.Listener, 2)
	for i := range all {
		var err error
		if all[i], err = net.Listen("tcp4", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	m := merge(all...)
	if m.Addr().String() != all[0].Addr().String() {
		t.Errorf("address is %s", m.Addr())
	}
	for _, l := range all {
		out, err := net.Dial("tcp4", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		in, err := m.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if in.LocalAddr().String() != l.Addr().String() {
			t.Errorf("connection to %s arrived at %s", l.Addr(), in.LocalAddr())
		}
		_, _ = in.Write([]byte("hello"))
		_ = in.Close()
		if b, err := io.ReadAll(out); string(b) != "hello" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
		_ = out.Close()
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if err := m.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
	if _, err := m.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept after close: %v", err)
	}
	for _, l := range all {
		if _, err := net.Dial("tcp4", l.Addr().String()); err == nil {
			t.Errorf("%s still listens", l.Addr())
		}
	}
}

func TestSocketsNeedAParent(t *testing.T) {
	t.Setenv(socketVar, "")
	if _, err := inheritedSockets(); err == nil {
		t.Error("sockets out of nowhere")
	}
}
