package ipvs

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"proxylab/proxiers/ipvs/kernel"
)

// wantedSettings are below /proc/sys/net/ipv4. links are those that have the node's addresses.
func wantedSettings(release string, links []string) [][2]string {
	reuse := "1"
	if older(release, 5, 9) {
		// Such kernels drop the first packet of a connection whose port was used before, if conntrack is on: a second
		// is lost. With 0 they may hand it to a server that drains, which expire_nodest_conn prevents.
		reuse = "0"
	}
	list := [][2]string{
		{"vs/conntrack", "1"},                 // or nothing is masqueraded
		{"vs/conn_reuse_mode", reuse},         //
		{"vs/expire_nodest_conn", "1"},        // a flow to a server that is gone ends, and no port revives one with weight 0
		{"vs/expire_quiescent_template", "1"}, // affinity to a server with weight 0 ends
		{"ip_forward", "1"},
	}
	for _, l := range links {
		// Every Service address is an address of this node, and must not be answered for in the network of the nodes: ARP
		// for addresses of the link itself only, and never a Service address as the sender of a request. That is
		// kube-proxy's strict ARP, narrowed to the links that need it.
		list = append(list, [2]string{"conf/" + l + "/arp_ignore", "1"}, [2]string{"conf/" + l + "/arp_announce", "2"})
	}
	return list
}

// older compares a kernel's release, "6.1.0-9-amd64", with a version.
func older(release string, major, minor int) bool {
	a, rest, _ := strings.Cut(release, ".")
	b := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	x, errX := strconv.Atoi(a)
	y, errY := strconv.Atoi(b)
	return errX == nil && errY == nil && (x < major || x == major && y < minor)
}

func kernelRelease() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "" // only a bad pointer makes it fail
	}
	return unix.ByteSliceToString(u.Release[:])
}

const (
	settingsRoot = "net/ipv4/"
	notePrefix   = "proxylab found:" // what the note on the link begins with: settings as they were
	noteLimit    = 255               // bytes
)

// applySettings changes what is not as wanted, and notes on the link what was there before, for Cleanup.
func applySettings(k kernel.Kernel, wanted [][2]string) error {
	note, err := k.Links.Note(Link)
	if err != nil {
		return err
	}
	var errs []error
	before := readNote(note)
	for _, s := range wanted {
		name, value := s[0], s[1]
		is, err := k.Settings.Get(settingsRoot + name)
		if err != nil {
			if name == "vs/conntrack" {
				errs = append(errs, fmt.Errorf("the kernel has no setting net.ipv4.vs.conntrack (CONFIG_IP_VS_NFCT), which masquerading needs: %w", err))
			}
			continue // an older or newer kernel has no such setting
		}
		if is == value {
			continue
		}
		if !slices.ContainsFunc(before, func(o [2]string) bool { return o[0] == name }) {
			before = append(before, [2]string{name, is})
		}
		if err := writeNote(k, before); err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, k.Settings.Set(settingsRoot+name, value))
	}
	return errors.Join(errs...)
}

func writeNote(k kernel.Kernel, before [][2]string) error {
	text := notePrefix
	for _, s := range before {
		if len(text)+len(s[0])+len(s[1])+2 <= noteLimit {
			text += " " + s[0] + "=" + s[1]
		}
	}
	return k.Links.SetNote(Link, text)
}

func readNote(note string) (before [][2]string) {
	rest, ok := strings.CutPrefix(note, notePrefix)
	if !ok {
		return nil
	}
	for _, word := range strings.Fields(rest) {
		if name, value, ok := strings.Cut(word, "="); ok {
			before = append(before, [2]string{name, value})
		}
	}
	return before
}

// restoreSettings undoes what the note says. A link that is gone by now has no settings.
func restoreSettings(k kernel.Kernel) error {
	note, err := k.Links.Note(Link)
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range readNote(note) {
		if _, err := k.Settings.Get(settingsRoot + s[0]); err == nil {
			errs = append(errs, k.Settings.Set(settingsRoot+s[0], s[1]))
		}
	}
	return errors.Join(errs...)
}
