package controlplane

import (
	"runtime/debug"
	"strings"

	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/compatibility"
	"k8s.io/component-base/version"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

// kubernetesVersion is the release that is linked in, as "v1.37.2". Kubernetes itself learns it from linker flags of
// its own build, which a plain go build of this module does not have.
func kubernetesVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "k8s.io/kubernetes" {
				return m.Version
			}
		}
	}
	return "v" + version.DefaultKubeBinaryVersion + ".0" // a test binary knows no modules
}

// named is a version of which GET /version tells the release: kubectl refuses to parse the placeholder.
type named struct {
	compatibility.EffectiveVersion
}

func (n named) Info() *apimachineryversion.Info {
	info := *n.EffectiveVersion.Info()
	info.GitVersion = kubernetesVersion()
	info.GitCommit, info.GitTreeState, info.BuildDate = "", "", "1970-01-01T00:00:00Z"
	info.Major, info.Minor, _ = strings.Cut(version.DefaultKubeBinaryVersion, ".")
	return &info
}

func nameVersion(c *app.Config) {
	c.KubeAPIs.ControlPlane.Generic.EffectiveVersion = named{c.KubeAPIs.ControlPlane.Generic.EffectiveVersion}
	c.ApiExtensions.GenericConfig.EffectiveVersion = named{c.ApiExtensions.GenericConfig.EffectiveVersion}
	c.Aggregator.GenericConfig.EffectiveVersion = named{c.Aggregator.GenericConfig.EffectiveVersion}
}
