package vip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

const (
	// netOffset is SKF_NET_OFF: offsets from here on count from the IP header, wherever the filter stands.
	netOffset = 0xfff00000
	maxFilter = 4096 // BPF_MAXINSNS
)

// Filter is a classic BPF program that lets pass packets from these prefixes. On a socket that listens it drops all
// others without a word: a client waits, as behind a security group. v6 is the family of the socket; prefixes of the
// other one match nothing.
func Filter(allowed []netip.Prefix, v6 bool) ([]bpf.RawInstruction, error) {
	var program []bpf.Instruction
	for _, p := range merge(allowed, v6) {
		program = append(program, matchSource(p)...)
	}
	program = append(program, bpf.RetConstant{Val: 0})
	if len(program) > maxFilter {
		return nil, fmt.Errorf("%d allowed CIDRs do not fit into a socket's filter", len(allowed))
	}
	raw, err := bpf.Assemble(program)
	if err != nil {
		return nil, fmt.Errorf("filter for allowed CIDRs: %w", err)
	}
	return raw, nil
}

// matchSource accepts if the source address is in p and goes on behind its end if not.
func matchSource(p netip.Prefix) []bpf.Instruction {
	at, words := uint32(12), p.Addr().AsSlice() // where the source stands in an IPv4 header
	if p.Addr().Is6() {
		at = 8
	}
	// Per word: load, mask, compare; the last instruction accepts.
	n := (p.Bits() + 31) / 32
	var program []bpf.Instruction
	for i := range n {
		mask := uint32(0xffffffff)
		if rest := p.Bits() - 32*i; rest < 32 {
			mask <<= 32 - rest
		}
		left := 3 * (n - 1 - i) // instructions of the words that follow
		program = append(program,
			bpf.LoadAbsolute{Off: netOffset + at + uint32(4*i), Size: 4},
			bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: mask},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: binary.BigEndian.Uint32(words[4*i:]) & mask, SkipFalse: uint8(left + 1)})
	}
	return append(program, bpf.RetConstant{Val: 0xffffffff})
}

// merge keeps the prefixes of one family that no other one covers.
func merge(all []netip.Prefix, v6 bool) []netip.Prefix {
	var own []netip.Prefix
	for _, p := range all {
		if p.IsValid() && p.Addr().Unmap().Is6() == v6 {
			own = append(own, p.Masked())
		}
	}
	slices.SortFunc(own, func(a, b netip.Prefix) int { return a.Bits() - b.Bits() })
	var kept []netip.Prefix
	for _, p := range own {
		if !slices.ContainsFunc(kept, func(wide netip.Prefix) bool { return wide.Contains(p.Addr()) }) {
			kept = append(kept, p)
		}
	}
	return kept
}

// SetAllowed puts the filter on an open socket in place of the one it has; no prefixes: everyone may come.
func SetAllowed(c syscall.Conn, allowed []netip.Prefix, v6 bool) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return fmt.Errorf("allowed CIDRs: %w", err)
	}
	return control(raw, func(fd int) error { return attach(fd, allowed, v6) })
}

func control(raw syscall.RawConn, f func(fd int) error) error {
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}

func attach(fd int, allowed []netip.Prefix, v6 bool) error {
	if len(allowed) == 0 {
		err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0)
		if err != nil && !errors.Is(err, unix.ENOENT) { // there was none
			return fmt.Errorf("remove filter: %w", err)
		}
		return nil
	}
	program, err := Filter(allowed, v6)
	if err != nil {
		return err
	}
	filters := make([]unix.SockFilter, len(program))
	for i, ins := range program {
		filters[i] = unix.SockFilter{Code: ins.Op, Jt: ins.Jt, Jf: ins.Jf, K: ins.K}
	}
	fprog := unix.SockFprog{Len: uint16(len(filters)), Filter: &filters[0]}
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &fprog); err != nil {
		return fmt.Errorf("attach filter: %w", err)
	}
	return nil
}
