package conformance

import "testing"

func TestLocalPortsAreNoFacts(t *testing.T) {
	for line, want := range map[string]string{
		"-A KUBE-PORTALS-HOST -d 10.96.0.1/32 -p tcp -m tcp --dport 443 -j DNAT --to-destination 10.10.0.11:37417": "-A KUBE-PORTALS-HOST -d 10.96.0.1/32 -p tcp -m tcp --dport 443 -j DNAT --to-destination 10.10.0.11:LOCAL",
		"-A KUBE-NODEPORT-CONTAINER -p udp -m udp --dport 30053 -j REDIRECT --to-ports 4711":                       "-A KUBE-NODEPORT-CONTAINER -p udp -m udp --dport 30053 -j REDIRECT --to-ports LOCAL",
		"-A KUBE-NODEPORT-NON-LOCAL -p tcp -m tcp --dport 37417 -j DROP":                                           "-A KUBE-NODEPORT-NON-LOCAL -p tcp -m tcp --dport LOCAL -j DROP",
		"-A KUBE-SEP-AAAAAAAAAAAAAAAA -p tcp -m tcp -j DNAT --to-destination 10.244.1.2:8080":                      "-A KUBE-SEP-AAAAAAAAAAAAAAAA -p tcp -m tcp -j DNAT --to-destination 10.244.1.2:8080",
	} {
		if got := withoutLocalPort(line); got != want {
			t.Errorf("%s", got)
		}
	}
}

func TestSentinelsPortIsNoFact(t *testing.T) {
	const port = 1174 // 0x0496
	for line, want := range map[string]string{
		"-A KUBE-SERVICES -d 10.96.9.9/32 -p tcp -m tcp --dport 1174 -j KUBE-SVC-X":  "-A KUBE-SERVICES -d 10.96.9.9/32 -p tcp -m tcp --dport SENTINEL -j KUBE-SVC-X",
		"-A KUBE-SERVICES -d 10.96.9.9/32 -p tcp -m tcp --dport 1174":                "-A KUBE-SERVICES -d 10.96.9.9/32 -p tcp -m tcp --dport SENTINEL",
		"-A KUBE-SERVICES -d 10.96.9.9/32 -p tcp -m tcp --dport 11740 -j KUBE-SVC-X": "-A KUBE-SERVICES -d 10.96.9.9/32 -p tcp -m tcp --dport 11740 -j KUBE-SVC-X",
		"-A KUBE-SERVICES -d 10.96.9.9/32 -p tcp -m tcp --dport 1172 -j KUBE-SVC-X":  "-A KUBE-SERVICES -d 10.96.9.9/32 -p tcp -m tcp --dport 1172 -j KUBE-SVC-X",
		"cat /proc/net/ip_vs: TCP  0A6090F8:0496 rr":                                 "cat /proc/net/ip_vs: TCP  0A6090F8:SENTINEL rr",
	} {
		if got := withoutSentinel(line, port); got != want {
			t.Errorf("%s", got)
		}
	}
}
