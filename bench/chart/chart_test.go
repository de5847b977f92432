package chart

import ("testing";"os";"math")

func TestSketch(t *testing.T) {
	s := Series{Name:"iptables", Hue: HueOf("iptables")}
	k := Series{Name:"kube-proxy/iptables", Hue: HueOf("kube-proxy/iptables")}
	for i := range 86 { x := float64(i)/2; s.X=append(s.X,x); s.Y=append(s.Y, 0.001*(2+math.Sin(x))); k.X=append(k.X,x); k.Y=append(k.Y,0.002*(2+math.Cos(x)))}
	f, err := Lines{ID:"a",Title:"Latency, p99",Unit:Seconds,Log:true,Series:[]Series{s,k},Marks:[]Mark{{3,"1"},{6,"2"},{6.2,"3"}}}.Draw()
	if err!=nil {t.Fatal(err)}
	os.WriteFile("/tmp/web/a.svg", []byte(f.Wide), 0o644)
	os.WriteFile("/tmp/web/b.svg", []byte(f.Narrow), 0o644)
}
