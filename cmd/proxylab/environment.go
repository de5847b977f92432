package main

import (
	"fmt"
	"os/exec"
	"strings"
)

// environment is what a reader of a result should know of the machine and the terms, besides kernel and processors.
func environment(terms proxierFlags) []string {
	facts := []string{
		fmt.Sprintf("min sync period %s, sync period %s, for all proxiers", terms.minSync, terms.sync),
		"conntrack settings: the kernel's defaults, for all proxiers",
	}
	for _, tool := range []string{"iptables", "nft"} {
		if out, err := exec.Command(tool, "--version").Output(); err == nil {
			facts = append(facts, strings.TrimSpace(string(out)))
		}
	}
	return facts
}
