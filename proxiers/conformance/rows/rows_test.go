package rows

import (
	"net/netip"
	"testing"

	"proxylab/proxiers/conformance"
)

func TestAll(t *testing.T) {
	all := All()
	if err := conformance.Check(all); err != nil {
		t.Error(err)
	}
	if len(all) < 60 {
		t.Errorf("%d rows, the table has 60 at least", len(all))
	}
	modes := []string{"userspace", "iptables", "nftables", "ipvs"}
	quick := 0
	for _, r := range all {
		if r.Quick {
			quick++
		}
		applies := 0
		for _, m := range modes {
			if why, not := r.NotApplicable[m]; !not {
				applies++
			} else if why == "" {
				t.Errorf("%s: no reason why it does not apply to %s", r.ID(), m)
			}
		}
		if applies == 0 {
			t.Errorf("%s applies to no mode", r.ID())
		}
		for name, d := range r.Known {
			if d.How == "" {
				t.Errorf("%s: what is known of %s needs words", r.ID(), name)
			}
		}
	}
	if quick == 0 || quick == len(all) {
		t.Errorf("%d of %d rows are quick", quick, len(all))
	}
}

func TestParseAddrPort(t *testing.T) {
	for text, want := range map[string]string{
		"0A600001:0050":          "10.96.0.1:80",
		"[fd00:10:96::1]:1F91":   "[fd00:10:96::1]:8081",
		"0AF40102:1F92":          "10.244.1.2:8082",
		"[fd00:0010::0001]:0035": "[fd00:10::1]:53",
	} {
		if got := parseAddrPort(text); got != netip.MustParseAddrPort(want) {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for _, bad := range []string{"", "x", "0A6:0050", "0A600001:zz"} {
		if got := parseAddrPort(bad); got.IsValid() {
			t.Errorf("%q: %s", bad, got)
		}
	}
}
