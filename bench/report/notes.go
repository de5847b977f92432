package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"proxylab/bench/events"
)

// notes are sentences, each once, with the subjects that it is about.
type notes struct {
	texts []string // in the order of their first appearance
	about map[string][]string
}

func (n *notes) add(about *events.Subject, text string) {
	names, seen := n.about[text]
	if !seen {
		if n.about == nil {
			n.about = map[string][]string{}
		}
		n.texts = append(n.texts, text)
	}
	if about != nil {
		if name := nameOf(about.Proxier, about.Backend); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	n.about[text] = names
}

func (n *notes) clone() notes {
	return notes{slices.Clone(n.texts), maps.Clone(n.about)}
}

// lines are the sentences, each with the names of the subjects before it unless it is about all of them.
func (n *notes) lines(all []string) []string {
	var lines []string
	for _, text := range n.texts {
		names := n.about[text]
		if len(names) > 0 && len(names) < len(all) {
			text = strings.Join(names, ", ") + ": " + text
		}
		lines = append(lines, text)
	}
	return lines
}

// nameOf is how people call a subject: "iptables (legacy)".
func nameOf(proxier, backend string) string {
	if backend == "" {
		return proxier
	}
	return proxier + " (" + backend + ")"
}

// allNotes are those of the log and those that follow from it.
func (f *Folder) allNotes(r *Result) []string {
	n := f.notes.clone()
	f.noteRun(&n, r)
	noteLate(&n, f.subjects)
	for i, s := range f.subjects {
		noteSubject(&n, s, r.Subjects[i])
	}
	var all []string
	for _, s := range r.Subjects {
		if name := nameOf(s.Proxier, s.Backend); !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return n.lines(all)
}

func (f *Folder) noteRun(n *notes, r *Result) {
	if f.ended == nil {
		text := "The log is cut off: what it does not hold is not in this result."
		if !f.last.IsZero() {
			text = fmt.Sprintf("The log is cut off after %s: what came later is not in this result.", f.last.UTC().Format("15:04:05 UTC"))
		}
		n.add(nil, text)
	}
	for _, p := range r.Run.Proxiers {
		played := 0
		for _, s := range r.Subjects {
			if s.Proxier == p {
				played++
			}
		}
		if want := max(r.Run.Repeat, 1); played == 0 {
			n.add(nil, p+" was not played.")
		} else if played < want {
			n.add(nil, fmt.Sprintf("%s was played %d times of %d.", p, played, want))
		}
	}
	if r.Run.Kernel.Kind == "uml" {
		n.add(nil, "The nodes lived in a User Mode Linux kernel: how it walks rules is real, its system calls are slow.")
	}
	if f.unknown > 0 {
		n.add(nil, fmt.Sprintf("%d events of the log are of a kind that this version does not know; they are not in this result.", f.unknown))
	}
	if f.orphans > 0 {
		n.add(nil, fmt.Sprintf("%d events of the log name no proxier; they are not in this result.", f.orphans))
	}
}

// lateShare is from which share of late requests on a reader should know.
const lateShare = 0.01

// noteLate says once for the whole run how much of the traffic was sent late, and where it was worst.
func noteLate(n *notes, subjects []*subject) {
	var late, requests int64
	worst, where := 0.0, ""
	for _, s := range subjects {
		for _, name := range sortedKeys(s.loads) {
			l := s.loads[name]
			late, requests = late+l.late, requests+l.requests
			if share := float64(l.late) / float64(max(l.requests, 1)); share > worst {
				worst, where = share, fmt.Sprintf("%s with %s", name, nameOf(s.id.Proxier, s.id.Backend))
			}
		}
	}
	if worst > lateShare {
		n.add(nil, fmt.Sprintf("%d of %d requests were sent over 10 ms late because the load generator was busy (at worst %s, %.1f%%); "+
			"their latency includes that.", late, requests, where, 100*worst))
	}
}

// ownLimits are kinds of errors that say something about the load generator's machine and not about the proxier.
var ownLimits = []string{"no-port", "unsent"}

func noteSubject(n *notes, s *subject, r *Subject) {
	about := &s.id
	for _, name := range sortedKeys(s.loads) {
		l := s.loads[name]
		for _, kind := range ownLimits {
			if k := l.errorsByKind[kind]; k > 0 {
				n.add(about, fmt.Sprintf("%s: %d errors (%s) are the load generator's own limit.", name, k, kind))
			}
		}
		if l.unreadable != nil {
			n.add(about, fmt.Sprintf("%s: some latencies are missing: %v.", name, l.unreadable))
		}
	}
	if p := r.ProgrammingSeconds; p != nil && p.Unobserved > 0 {
		n.add(about, fmt.Sprintf("%d of %d changes were not seen in the data path within the time limit; "+
			"they count with that limit in the programming latency.", p.Unobserved, p.Samples))
	}
	if len(s.guests) > 0 {
		n.add(about, fmt.Sprintf("what %s cost while in charge after a swap is not in its syncs, CPU and memory.", strings.Join(s.guests, " and ")))
	}
	for _, w := range r.Swap {
		if len(w.Leftovers) > 0 {
			n.add(about, fmt.Sprintf("after the change to %s, %s had left behind: %s.", w.To, w.From, firstFew(w.Leftovers, 3)))
		}
	}
}

func firstFew(list []string, n int) string {
	if len(list) <= n {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:n], ", "), len(list)-n)
}
