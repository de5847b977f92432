package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"proxylab/lab"
	"proxylab/lab/kernel"
)

// throwAway says which User Mode Linux kernel "--kernel uml" would start, and which proxiers can run in it, by starting it
// and asking a doctor inside.
func throwAway(ctx context.Context) []finding {
	const what = "kernel uml"
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	k, err := kernel.Find(ctx, "")
	if err != nil {
		return []finding{refused(what, err)}
	}
	var stdout, stderr bytes.Buffer
	flags := kernelFlags{kind: "uml", path: k.Path, memoryMiB: 512}
	if _, err := flags.run(ctx, []string{"doctor", "--output=json"}, &stdout, &stderr); err != nil {
		return []finding{refused(what, err)}
	}
	var inside []finding
	if err := json.Unmarshal(stdout.Bytes(), &inside); err != nil {
		return []finding{{What: what, Detail: fmt.Sprintf("%s: the doctor inside says no findings: %v: %.300s", k.Path, err, stderr.String())}}
	}
	whole := fmt.Sprintf("%s, Linux %s", k.Path, k.Release)
	findings := []finding{{What: what, OK: true}}
	var runs []string
	for _, f := range inside {
		proxier, ok := strings.CutPrefix(f.What, "proxier ")
		switch {
		case ok && f.OK:
			runs = append(runs, proxier)
		case ok || !f.OK && strings.HasPrefix(f.What, "lab "):
			f.What = what + ": " + strings.TrimPrefix(f.What, "proxier ")
			if strings.Contains(f.What, "nftables") { // for which one was made
				f.Remedy = `"make uml-kernel" builds one that has what is missing`
			}
			findings = append(findings, f)
		}
	}
	findings[0].Detail = whole + ": runs " + strings.Join(runs, ", ")
	if len(runs) == 0 {
		findings[0] = finding{What: what, Detail: whole + ": runs no proxier"}
	}
	return findings
}

// refused is what an error says that something cannot be had.
func refused(what string, err error) finding {
	f := finding{What: what, Detail: err.Error()}
	var missing lab.Missing
	if errors.As(err, &missing) {
		f.Detail, f.Remedy = missing.What, missing.Remedy
	}
	return f
}
