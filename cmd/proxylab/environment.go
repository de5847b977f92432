package main

import (
	"fmt"
	"os/exec"
	"strings"

	"proxylab/lab/labs"
)

// environment is what a reader of a result should know of the machine and the terms, besides kernel and processors.
func environment(terms proxierFlags, kind string) []string {
	facts := []string{
		fmt.Sprintf("min sync period %s, sync period %s, for all proxiers", terms.minSync, terms.sync),
		"conntrack settings: the kernel's defaults, for all proxiers",
	}
	if !labs.HostTools(kind) {
		return append(facts, "iptables and nft: those of the nodes, and kube-proxy's own of its image")
	}
	for _, tool := range []string{"iptables", "nft"} {
		if out, err := exec.Command(tool, "--version").Output(); err == nil {
			facts = append(facts, strings.TrimSpace(string(out)))
		}
	}
	return facts
}

// environment of a run says at what pace it was, too, where that is not the scenario's own.
func (o *runOptions) environment() []string {
	facts := environment(o.terms, o.lab.kind)
	if share := o.share(); share < 1 {
		facts = append(facts, fmt.Sprintf("loads and probes sent at %.0f%% of the scenario's rates (--pace), and expectations of how many requests there are lowered alike", 100*share))
	}
	return facts
}
