package report

import "proxylab/bench/events"

// FormatSeconds is a duration for people, to three digits: "0s", "12µs", "1.23ms", "45.6s", "2m3s".
func FormatSeconds(s float64) string { return formatSeconds(s) }

// FormatBytes is a size for people, in decimal multiples: "104MB".
func FormatBytes(v float64) string { return size.format(v) }

// FormatThroughput is bytes per second for people: "1.2GB/s".
func FormatThroughput(v float64) string { return flow.format(v) }

// FormatRate is something a second for people: "150/s".
func FormatRate(v float64) string { return rate.format(v) }

// FormatShare is a share of 1 for people: "33.3%".
func FormatShare(v float64) string { return share.format(v) }

// SubjectName is a subject's proxier, with its rule back end where it has a choice: "iptables (nft)".
func SubjectName(s events.Subject) string { return nameOf(s.Proxier, s.Backend) }
