package manifests

import (
	"bytes"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// Each document is an object that Kubernetes itself decodes.
func TestProxier(t *testing.T) {
	for server, documents := range map[string]int{"": 3, "https://10.0.0.1:6443": 4} {
		text, err := Proxier(Options{Proxier: "nftables", Image: "here/it:is", Server: server, MinSyncPeriod: time.Second, SyncPeriod: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		parts := bytes.Split(text, []byte("---\n"))
		for line := range strings.Lines(string(parts[0])) {
			if !strings.HasPrefix(line, "#") {
				t.Errorf("the head is no comment: %q", line)
			}
		}
		if !bytes.Contains(parts[0], []byte("manifests image proxier.tar --tag here/it:is")) {
			t.Errorf("the head does not say how to make the image:\n%s", parts[0])
		}
		if len(parts[1:]) != documents {
			t.Errorf("server %q: %d documents, want %d", server, len(parts[1:]), documents)
		}
		for i, part := range parts[1:] {
			object, _, err := scheme.Codecs.UniversalDeserializer().Decode(part, nil, nil)
			if err != nil {
				t.Errorf("%v:\n%s", err, part)
			}
			if i < len(parts)-2 {
				continue
			}
			set, ok := object.(*appsv1.DaemonSet)
			if !ok {
				t.Fatalf("the last is %T", object)
			}
			pod := set.Spec.Template.Spec
			config := pod.Volumes[0].ConfigMap.Name
			if (config == "kube-proxy") != (server == "") || pod.Containers[0].Image != "here/it:is" || !strings.Contains(strings.Join(pod.Containers[0].Args, " "), "proxier nftables --take-over --node=$(NODE_NAME)") {
				t.Errorf("%+v", pod)
			}
		}
	}
}

func TestWrongServer(t *testing.T) {
	for _, server := range []string{"10.0.0.1", "http://10.0.0.1:8080", "https://", "%"} {
		if _, err := Proxier(Options{Proxier: "iptables", Server: server}); err == nil {
			t.Errorf("%q: no error", server)
		}
	}
}
