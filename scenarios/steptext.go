package scenarios

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// String says what a load does: "load web: http 200/s, new connections, to web".
func (l LoadStep) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "load %s: %s", l.Name, l.Kind)
	if l.Rate != nil {
		fmt.Fprintf(&b, " %s", l.Rate)
	}
	if l.Connections != "" {
		fmt.Fprintf(&b, ", %s connections", l.Connections)
	}
	switch {
	case l.Kind == "hold":
		fmt.Fprintf(&b, " %d connections", l.Count)
	case l.Kind == "stream":
		fmt.Fprintf(&b, " %d at once", l.Count)
	case l.Count > 1:
		fmt.Fprintf(&b, " of %d clients", l.Count)
	}
	fmt.Fprintf(&b, ", to %s", l.Service)
	if l.Port != "" {
		fmt.Fprintf(&b, ":%s", l.Port)
	}
	if l.From == "outside" {
		b.WriteString(" from outside")
	} else if l.Via == "nodePort" {
		b.WriteString(" by NodePort")
	}
	if l.Via == ViaVIP {
		b.WriteString(" through the VIP")
	}
	if l.Node != "" && l.From == "outside" {
		fmt.Fprintf(&b, " by way of %s", l.Node)
	} else if l.Node != "" {
		fmt.Fprintf(&b, " from %s", l.Node)
	}
	if l.Family == "ipv6" {
		b.WriteString(" over IPv6")
	}
	if l.For > 0 {
		fmt.Fprintf(&b, ", for %s", l.For)
	}
	return b.String()
}

// String says where a swap goes: "swap to kube-proxy/nftables".
func (s SwapStep) String() string {
	to := make([]string, len(s.To))
	for i, name := range s.To {
		if to[i] = name; name == Subject {
			to[i] = "the subject"
		}
	}
	text := "swap to " + strings.Join(to, " or ")
	if len(to) > 1 {
		text += " (the first that does not run now)"
	}
	if s.Node != "" {
		text += " on " + s.Node
	}
	return text
}

// String is kind and name: "service web".
func (t Target) String() string {
	ref := t.Ref()
	name := ref.Name
	if ref.Namespace != "" && ref.Namespace != "default" {
		name = ref.Namespace + "/" + name
	}
	return strings.ToLower(ref.Kind) + " " + name
}

// oneLine is a patch as JSON, cut to a length that a table holds.
func oneLine(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	const most = 80
	if r := []rune(string(text)); len(r) > most {
		return string(r[:most-3]) + "..."
	}
	return string(text)
}

func describeObjects(objects []*unstructured.Unstructured) string {
	names := make([]string, len(objects))
	for i, o := range objects {
		names[i] = strings.ToLower(o.GetKind()) + " " + o.GetName()
	}
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}
