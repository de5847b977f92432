package iptables

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// The kernel counts the transactions of nf_tables in a network namespace. As long as the count is what it was after our
// last one, nobody changed anything, and the listing, which takes seconds with many chains, is spared. Legacy iptables
// has no such count.

// nftGeneration is the number of the last nf_tables transaction in the calling thread's network namespace.
func nftGeneration() (uint32, error) {
	req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETGEN, 0)
	req.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_UNSPEC, Version: nl.NFNETLINK_V0})
	msgs, err := req.Execute(unix.NETLINK_NETFILTER, 0)
	if err != nil {
		return 0, fmt.Errorf("ask for the nf_tables generation: %w", err)
	}
	for _, m := range msgs {
		if len(m) < nl.SizeofNfgenmsg {
			continue
		}
		attrs, err := nl.ParseRouteAttr(m[nl.SizeofNfgenmsg:])
		if err != nil {
			return 0, fmt.Errorf("nf_tables generation: %w", err)
		}
		for _, a := range attrs {
			if a.Attr.Type&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER) == unix.NFTA_GEN_ID && len(a.Value) == 4 {
				return binary.BigEndian.Uint32(a.Value), nil
			}
		}
	}
	return 0, errors.New("the kernel names no nf_tables generation")
}

// watch tells whether somebody else changed the tables since the last pass.
type watch struct {
	generation func() (uint32, error) // nil: there is no count
	trusted    bool                   // last is the count of tables that are as the mirrors say
	last       uint32
	before     uint32
	known      bool // before was read
}

// begin is called before a pass. It says that nobody changed anything since the end of the last one.
func (w *watch) begin() (unchanged bool) {
	w.known = false
	if w.generation == nil {
		return false
	}
	var err error
	w.before, err = w.generation()
	w.known = err == nil
	return w.known && w.trusted && w.before == w.last
}

// end is called after a pass that made a number of transactions. sure says that the tables were as the mirrors say when
// it began. If more transactions were made than ours, the next full pass has to look.
func (w *watch) end(sure bool, ours int) {
	w.trusted = false
	if !w.known || !sure {
		return
	}
	after, err := w.generation()
	w.trusted, w.last = err == nil && after == w.before+uint32(ours), after
}
