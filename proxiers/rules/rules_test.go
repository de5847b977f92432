package rules

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"pgregory.net/rapid"
)

// whole is a Subject with all kinds of addresses.
var whole = func() Subject {
	port := []corev1.ServicePort{{Name: "http", Port: 80, NodePort: 30080, Protocol: "TCP"}}
	return Subject{
		Service: &corev1.Service{Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.96.192.185", "fd00:10:96::95c5"},
			ExternalIPs: []string{"203.0.113.7"}, IPFamilies: []corev1.IPFamily{"IPv4", "IPv6"}, Ports: port}},
		Node: &corev1.Node{Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Address: "10.10.0.11"}, {Address: "fd00:10:10::b"}}}},
	}
}()

var update = flag.Bool("update", false, "write the golden files anew")

// TestStories tells the stories of what real proxiers wrote for the Services of testdata, and compares them
// with what was read and found right.
func TestStories(t *testing.T) {
	for name, mode := range map[string]string{
		"nftables": "nftables", "ipvs": "ipvs", "iptables": "iptables", "kube-proxy-iptables": "iptables", "userspace": "userspace", "kube-proxy-nftables": "nftables",
	} {
		for _, service := range []string{"web", "lb", "none"} {
			t.Run(name+"/"+service, func(t *testing.T) {
				d := Dump{IPTables: file(t, name+".v4"), IP6Tables: file(t, name+".v6"), NFTables: file(t, name+".nft"),
					Sets: file(t, name+".sets"), IPVS: file(t, name+".ipvs")}
				stories, err := Explain(mode, subject(t, name, service), d)
				if err != nil {
					t.Fatal(err)
				}
				var got bytes.Buffer
				if err := Print(&got, stories); err != nil {
					t.Fatal(err)
				}
				golden := filepath.Join("testdata", name+"-"+service+".golden")
				if *update {
					if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(golden)
				if err != nil {
					t.Fatal(err)
				}
				if got.String() != string(want) {
					t.Errorf("it is not %s any more (-update after reading it):\n%s", golden, got.String())
				}
			})
		}
	}
}

// file reads a dump; one that a mode has no use for is not there.
func file(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(b)
}

// subject reads the objects that a dump was made with.
func subject(t *testing.T, dump, service string) (s Subject) {
	t.Helper()
	var list corev1.ServiceList
	var sliceList discoveryv1.EndpointSliceList
	s.Node = &corev1.Node{}
	set := "shared"
	if file(t, dump+".services.json") != "" {
		set = dump
	}
	for name, into := range map[string]any{set + ".services.json": &list, set + ".slices.json": &sliceList, "node.json": s.Node} {
		if err := json.Unmarshal([]byte(file(t, name)), into); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	for i := range list.Items {
		if list.Items[i].Name == service {
			s.Service = &list.Items[i]
		}
	}
	for _, slice := range sliceList.Items {
		if slice.Labels[discoveryv1.LabelServiceName] == service {
			s.Slices = append(s.Slices, slice)
		}
	}
	if s.Service == nil {
		t.Fatalf("no Service %s", service)
	}
	return s
}

// TestDamagedDumps: what a tool prints may be cut off or strange; that is an error or a shorter story, never a panic.
func TestDamagedDumps(t *testing.T) {
	modes := map[string]string{"kube-proxy-iptables": "iptables", "userspace": "userspace", "kube-proxy-nftables": "nftables", "nftables": "nftables", "ipvs": "ipvs"}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"kube-proxy-iptables", "userspace", "kube-proxy-nftables", "nftables", "ipvs"}).Draw(t, "dump")
		damage := func(text []byte) string {
			if len(text) == 0 {
				return ""
			}
			text = slices.Clone(text)
			for range rapid.IntRange(0, 5).Draw(t, "bytes") {
				text[rapid.IntRange(0, len(text)-1).Draw(t, "at")] = rapid.SampledFrom([]byte("{}\"\n -:.@")).Draw(t, "byte")
			}
			return string(text[:rapid.IntRange(0, len(text)).Draw(t, "length")])
		}
		var d Dump
		for ext, into := range map[string]*string{".v4": &d.IPTables, ".v6": &d.IP6Tables, ".nft": &d.NFTables, ".sets": &d.Sets, ".ipvs": &d.IPVS} {
			text, _ := os.ReadFile(filepath.Join("testdata", name+ext)) // a mode has some of these
			*into = damage(text)
		}
		stories, err := Explain(modes[name], whole, d)
		if err == nil {
			_ = Print(io.Discard, stories)
		}
	})
}
