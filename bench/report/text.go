package report

import "proxylab/bench/events"

// SubjectName is a subject's proxier, with its rule back end where it has a choice: "iptables (nft)".
func SubjectName(s events.Subject) string { return nameOf(s.Proxier, s.Backend) }
