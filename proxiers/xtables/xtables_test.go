package xtables

import (
	"errors"
	"strings"
	"testing"
)

func TestRestoreErrorNamesTheLine(t *testing.T) {
	input := []byte("*nat\n:KUBE-X - [0:0]\n-A KUBE-X -j NOWHERE\nCOMMIT\n")
	for output, want := range map[string]string{
		"iptables-restore v1.8.9 (legacy): Couldn't load target `NOWHERE'\n\nError occurred at line: 3\nTry ...": "-A KUBE-X -j NOWHERE",
		"iptables-restore: line 4 failed":                                 "COMMIT",
		"iptables-nft-restore: line 3: RULE_APPEND failed (No such file)": "-A KUBE-X -j NOWHERE",
		"Another app is currently holding the xtables lock; waited 5s":    "",
		"line 99 failed":                   "",
		"line 99999999999999999999 failed": "",
	} {
		e := NewRestoreError([]string{"iptables-restore"}, input, output, errors.New("exit status 2"))
		if e.Text != want {
			t.Errorf("%q: line %d %q, want %q", output, e.Line, e.Text, want)
		}
		if e.Locked() != strings.Contains(output, "lock") || !strings.Contains(e.Error(), output[:10]) {
			t.Errorf("%v", e)
		}
	}
}

func TestBackendIsTheOneInUse(t *testing.T) {
	kubelet, proxys := evidence{kubelet: true, rules: 1}, evidence{proxy: true, rules: 1}
	for _, c := range []struct {
		nft, legacy evidence
		fallback    string
		want        string
	}{
		{evidence{rules: 9}, kubelet, "nft", "legacy"},
		{kubelet, evidence{proxy: true, rules: 9}, "legacy", "nft"},
		{evidence{rules: 9}, proxys, "nft", "legacy"},
		{proxys, evidence{rules: 9}, "legacy", "nft"},
		{evidence{proxy: true, rules: 3}, proxys, "legacy", "nft"},
		{evidence{rules: 1}, evidence{rules: 2}, "nft", "legacy"},
		{evidence{}, evidence{}, "legacy", "legacy"},
		{evidence{}, evidence{}, "nft", "nft"},
		{evidence{}, evidence{}, "", "nft"},
	} {
		got, reason := choose(map[string]evidence{"nft": c.nft, "legacy": c.legacy}, c.fallback)
		if got != c.want {
			t.Errorf("%+v: %s because %s", c, got, reason)
		}
	}
	if got, _ := choose(map[string]evidence{"legacy": {}}, "nft"); got != "legacy" {
		t.Errorf("without nft's tools: %s", got)
	}
}

func TestJumpTarget(t *testing.T) {
	for rule, want := range map[string]string{
		"-A X -j KUBE-SERVICES": "KUBE-SERVICES",
		`-A X -m comment --comment "a -j KUBE-NODEPORTS \" -j B" -j KUBE-FORWARD`: "KUBE-FORWARD",
		"-A X -g KUBE-FORWARD":            "KUBE-FORWARD",
		"-A X -p tcp":                     "",
		"-A X -j DNAT --to-destination a": "DNAT",
	} {
		if got := jumpTarget([]byte(rule)); got != want {
			t.Errorf("%s: %q", rule, got)
		}
	}
}
