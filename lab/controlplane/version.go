package controlplane

import "runtime/debug"

// moduleVersion is the version of a module that this binary was built with; empty when it does not know.
func moduleVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == path {
			return m.Version
		}
	}
	return ""
}
