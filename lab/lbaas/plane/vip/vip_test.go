package vip_test

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/bpf"
	"pgregory.net/rapid"

	"proxylab/lab/lbaas/plane/vip"
)

// runs says whether the filter lets a packet from src pass. The kernel's offset of the IP header is taken out: the
// interpreter has packets that begin with it.
func runs(t *rapid.T, raw []bpf.RawInstruction, src netip.Addr) bool {
	program, whole := bpf.Disassemble(raw)
	if !whole {
		t.Fatal("not all of it are instructions")
	}
	for i, ins := range program {
		if load, ok := ins.(bpf.LoadAbsolute); ok {
			load.Off -= 0xfff00000
			program[i] = load
		}
	}
	vm, err := bpf.NewVM(program)
	if err != nil {
		t.Fatal(err)
	}
	packet := make([]byte, 60)
	if src.Is4() {
		copy(packet[12:], src.AsSlice())
	} else {
		copy(packet[8:], src.AsSlice())
	}
	n, err := vm.Run(packet)
	if err != nil {
		t.Fatal(err)
	}
	return n > 0
}

func someAddr(t *rapid.T, v6 bool) netip.Addr {
	if v6 {
		var b [16]byte
		copy(b[:], rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0x80, 0xfd}), 16, 16).Draw(t, "address"))
		return netip.AddrFrom16(b)
	}
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], rapid.Uint32().Draw(t, "address"))
	b[0] &= 3 // so that prefixes are hit
	return netip.AddrFrom4(b)
}

// The filter agrees with netip about who may come.
func TestFilter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v6 := rapid.Bool().Draw(t, "v6")
		var allowed []netip.Prefix
		for range rapid.IntRange(0, 20).Draw(t, "prefixes") {
			a := someAddr(t, rapid.Bool().Draw(t, "prefix v6"))
			allowed = append(allowed, netip.PrefixFrom(a, rapid.IntRange(0, a.BitLen()).Draw(t, "bits")))
		}
		raw, err := vip.Filter(allowed, v6)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			src := someAddr(t, v6)
			want := false
			for _, p := range allowed {
				want = want || p.Contains(src)
			}
			if got := runs(t, raw, src); got != want {
				t.Fatalf("%s by %v: %v", src, allowed, got)
			}
		}
	})
}

func TestFilterThatIsTooLong(t *testing.T) {
	var many []netip.Prefix
	for i := range 2000 {
		many = append(many, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1}), 32))
	}
	if _, err := vip.Filter(many, false); err == nil || !strings.Contains(err.Error(), "2000 allowed CIDRs") {
		t.Error(err)
	}
	if raw, err := vip.Filter(many[:1000], false); err != nil {
		t.Error(err, len(raw))
	}
	if raw, err := vip.Filter(append(many, netip.MustParsePrefix("10.0.0.0/8")), false); err != nil || len(raw) > 10 {
		t.Error("one prefix covers all:", err, fmt.Sprint(len(raw)))
	}
}
