package kernel

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// modulesRoot is where Debian's kernel keeps its modules, a directory for each release.
const modulesRoot = "/usr/lib/uml/modules"

// wanted are patterns of the modules that labs and proxiers use, in the order in which they are loaded. What they
// depend on is loaded before them.
var wanted = []string{
	"overlay", "veth", "bridge", "br_netfilter", "dummy", "tun", "sctp", "sch_netem", "sch_fq",
	"iptable_filter", "iptable_nat", "iptable_mangle", "iptable_raw",
	"ip6table_filter", "ip6table_nat", "ip6table_mangle", "ip6table_raw", "ipt_REJECT", "ip6t_REJECT",
	"xt_tcpudp", "xt_sctp", "xt_addrtype", "xt_comment", "xt_connmark", "xt_conntrack", "xt_ipvs", "xt_iprange", "xt_limit",
	"xt_mark", "xt_multiport", "xt_nfacct", "xt_owner", "xt_physdev", "xt_policy", "xt_recent", "xt_set", "xt_socket",
	"xt_state", "xt_statistic", "xt_string", "xt_CT", "xt_LOG", "xt_MASQUERADE", "xt_NFLOG", "xt_REDIRECT", "xt_TCPMSS",
	"xt_TPROXY", "xt_nat", "nf_conntrack_netlink", "nf_log_syslog",
	"ip_set_bitmap_port", "ip_set_hash_ip", "ip_set_hash_ipport", "ip_set_hash_ipportip", "ip_set_hash_ipportnet",
	"ip_set_hash_net", "ip_set_list_set",
	"ip_vs", "ip_vs_rr", "ip_vs_wrr", "ip_vs_lc", "ip_vs_wlc", "ip_vs_sh", "ip_vs_dh", "ip_vs_mh", "ip_vs_sed",
	"ip_vs_nq", "ip_vs_lblc", "ip_vs_lblcr", "ip_vs_fo", "ip_vs_ovf",
	"nf_tables", "nft_*",
}

// modules are those of a kernel: their files, and which need which.
type modules struct {
	dir   string
	files []string            // in the order of modules.dep
	needs map[string][]string // file -> files
	load  func(file string) error
	done  map[string]error
}

// loadModules loads what is wanted of what the running kernel has modules for. A kernel without any has everything built
// in. The error tells all that could not be loaded.
func loadModules() error {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return fmt.Errorf("uname: %w", err)
	}
	dir := filepath.Join(modulesRoot, unix.ByteSliceToString(u.Release[:]))
	dep, err := os.Open(filepath.Join(dir, "modules.dep"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dep.Close()
	m, err := readModules(dir, dep)
	if err != nil {
		return err
	}
	m.load = loadModule
	var errs []error
	for _, pattern := range wanted {
		for _, file := range m.matching(pattern) {
			errs = append(errs, m.ensure(file))
		}
	}
	return errors.Join(errs...)
}

// readModules reads a modules.dep: "file: file file...", a file's needs behind it.
func readModules(dir string, dep io.Reader) (*modules, error) {
	m := &modules{dir: dir, needs: map[string][]string{}, done: map[string]error{}}
	lines := bufio.NewScanner(dep)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		file, needs, ok := strings.Cut(lines.Text(), ":")
		if !ok {
			continue
		}
		m.files = append(m.files, file)
		m.needs[file] = strings.Fields(needs)
	}
	return m, lines.Err()
}

// matching are the files of the modules whose names match.
func (m *modules) matching(pattern string) []string {
	var found []string
	for _, file := range m.files {
		name, _, _ := strings.Cut(path.Base(file), ".")
		if ok, _ := path.Match(pattern, name); ok {
			found = append(found, file)
		}
	}
	return found
}

// ensure loads a module and before it what it needs, each once.
func (m *modules) ensure(file string) error {
	if err, tried := m.done[file]; tried {
		return err
	}
	m.done[file] = nil // a circle ends here
	for _, need := range m.needs[file] {
		if err := m.ensure(need); err != nil {
			m.done[file] = fmt.Errorf("module %s: %w", path.Base(file), err)
			return m.done[file]
		}
	}
	if err := m.load(filepath.Join(m.dir, file)); err != nil && !errors.Is(err, unix.EEXIST) {
		m.done[file] = fmt.Errorf("load module %s: %w", path.Base(file), err)
	}
	return m.done[file]
}

func loadModule(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	params := ""
	if strings.HasPrefix(filepath.Base(file), "dummy.") {
		params = "numdummies=0" // no dummy0 that nobody asked for
	}
	return unix.FinitModule(int(f.Fd()), params, 0)
}
