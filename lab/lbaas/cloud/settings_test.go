package cloud

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestSettingsMistakes(t *testing.T) {
	svc := newService(annotated(
		annClientData, "fast", annConnectionLimit, "-2", annProxy, "v3", annKeepFloating, "perhaps", annMonitorDelay, "2", annMonitorTimeout, "5",
		annMonitorRetries, "11", annMonitorDown, "0", annNodeSelector, "a in b", annClass, "dmz", annForwardedFor, "true",
		corev1.AnnotationLoadBalancerSourceRangesKey, "10.0.0.0/8, nonsense",
	), func(svc *corev1.Service) { svc.Spec.LoadBalancerIP = "ten" })
	_, err := settingsOf(svc, Config{}.withDefaults())
	if err == nil {
		t.Fatal("no mistakes")
	}
	for _, want := range []string{
		annClientData + `: "fast" is no whole number from 0`,
		annConnectionLimit + `: "-2" is no whole number from -1`,
		annProxy + `: "v3" is none of true, false, v1, v2`,
		annKeepFloating + `: "perhaps" is neither true nor false`,
		annMonitorTimeout + ": a health monitor's timeout (5 s) may not be above its delay (2 s)",
		annMonitorRetries + ": 11 is above 10",
		annMonitorDown + `: "0" is no whole number from 1`,
		annNodeSelector + ": ",
		annClass + `: there is no class "dmz"`,
		corev1.AnnotationLoadBalancerSourceRangesKey + `: "nonsense" is no range`,
		`spec.loadBalancerIP: "ten" is no address`,
	} {
		// All at once.
		if strings.Count(strings.ReplaceAll(err.Error(), `" nonsense"`, `"nonsense"`), want) != 1 {
			t.Errorf("%q is not said once in\n%v", want, err)
		}
	}
	_, err = settingsOf(newService(annotated(annProxy, "true", annForwardedFor, "true")), Config{}.withDefaults())
	if err == nil || !strings.Contains(err.Error(), "not together with") {
		t.Errorf("PROXY and X-Forwarded-For: %v", err)
	}
}

func TestSettingsPrecedence(t *testing.T) {
	conf := Config{
		SubnetID: "conf-subnet", NetworkID: "conf-net", FloatingNetworkID: "conf-float", FloatingSubnetID: "conf-fsub", MemberSubnetID: "conf-member",
		Classes: map[string]Class{"dmz": {FloatingSubnet: "dmz-*", SubnetID: "class-subnet"}},
	}.withDefaults()
	for _, tt := range []struct {
		name string
		svc  *corev1.Service
		want Class
	}{
		{"configuration", newService(), Class{FloatingNetworkID: "conf-float", FloatingSubnetID: "conf-fsub", NetworkID: "conf-net", SubnetID: "conf-subnet", MemberSubnetID: "conf-member"}},
		{"annotations", newService(annotated(annSubnet, "s", annFloatingNetwork, "f", annFloatingSubID, "i", annFloatingSubTag, "t", annMemberSubnet, "m")),
			Class{FloatingNetworkID: "f", FloatingSubnetID: "i", FloatingSubnetTags: "t", NetworkID: "conf-net", SubnetID: "s", MemberSubnetID: "m"}},
		{"a network instead of a subnet", newService(annotated(annNetwork, "n")),
			Class{FloatingNetworkID: "conf-float", FloatingSubnetID: "conf-fsub", NetworkID: "n", MemberSubnetID: "conf-member"}},
		{"class", newService(annotated(annClass, "dmz", annSubnet, "s", annFloatingSubID, "i")),
			Class{FloatingNetworkID: "conf-float", FloatingSubnet: "dmz-*", NetworkID: "conf-net", SubnetID: "class-subnet", MemberSubnetID: "conf-member"}},
	} {
		s, err := settingsOf(tt.svc, conf)
		if err != nil || s.Class != tt.want {
			t.Errorf("%s: %+v, %v; want %+v", tt.name, s.Class, err, tt.want)
		}
	}
}

func TestProxyProtocolValues(t *testing.T) {
	for value, want := range map[string]string{"": "", "false": "", "true": "PROXY", "True": "PROXY", "v1": "PROXY", "v2": "PROXYV2", "V2": "PROXYV2"} {
		s, err := settingsOf(newService(annotated(annProxy, value)), Config{}.withDefaults())
		if err != nil || s.Proxy != want {
			t.Errorf("%q: %q, %v", value, s.Proxy, err)
		}
	}
}
