// Gives the objects that the operator makes to the packages by which autoscalers and the scheduler judge them. A node that
// does not exist has the labels of its NodePool or template, and none of Hearth's.
package autoscalers

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	requirements "sigs.k8s.io/karpenter/pkg/scheduling"
)

const (
	namespace   = "team"
	poolLabel   = "example.com/pool"
	startupKey  = "hearth.storage/agent-not-ready"
	agentsLabel = "agents.hearth.storage/models"
)

type objects struct {
	DaemonSets []appsv1.DaemonSet      `json:"daemonSets"`
	Volume     corev1.PersistentVolume `json:"volume"`
}

// OBJECTS names the file that objects.ts has written.
func operatorObjects(t *testing.T) objects {
	t.Helper()
	text, err := os.ReadFile(os.Getenv("OBJECTS"))
	if err != nil {
		t.Fatal(err)
	}
	var found objects
	if err := json.Unmarshal(text, &found); err != nil {
		t.Fatal(err)
	}
	if len(found.DaemonSets) != 4 {
		t.Fatalf("agents and holders of two groups are 4 DaemonSets, not %d", len(found.DaemonSets))
	}
	return found
}

func podOf(set appsv1.DaemonSet) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: set.Name, Namespace: set.Namespace}, Spec: set.Spec.Template.Spec}
}

// A pod that reads the claim `model` and tolerates no taint.
func reader(cpu string) *corev1.Pod {
	claim := corev1.PersistentVolumeClaimVolumeSource{ClaimName: "model"}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "reader", Namespace: namespace, UID: "reader"},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name:      "read",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
			}},
			Volumes: []corev1.Volume{{Name: "model", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &claim}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}

func nodePool(pool string) *karpenter.NodePool {
	made := &karpenter.NodePool{ObjectMeta: metav1.ObjectMeta{Name: pool}}
	made.Spec.Template.Labels = map[string]string{poolLabel: pool}
	made.Spec.Template.Spec.NodeClassRef = &karpenter.NodeClassReference{Group: "example.com", Kind: "NodeClass", Name: "all"}
	made.Spec.Template.Spec.StartupTaints = []corev1.Taint{{Key: startupKey, Effect: corev1.TaintEffectNoSchedule}}
	return made
}

func instanceType(name, cpu string, price float64) *cloudprovider.InstanceType {
	labels := map[string]string{
		karpenter.CapacityTypeLabelKey: karpenter.CapacityTypeOnDemand,
		corev1.LabelTopologyZone:       "a",
	}
	offered := requirements.NewLabelRequirements(labels)
	all := requirements.NewLabelRequirements(map[string]string{
		corev1.LabelInstanceTypeStable: name,
		corev1.LabelOSStable:           "linux",
		corev1.LabelArchStable:         "amd64",
	})
	all.Add(offered.Values()...)
	return &cloudprovider.InstanceType{
		Name:         name,
		Requirements: all,
		Offerings:    cloudprovider.Offerings{{Available: true, Price: price, Requirements: offered}},
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse(cpu),
			corev1.ResourceMemory: resource.MustParse("64Gi"),
			corev1.ResourcePods:   resource.MustParse("110"),
		},
		Overhead: &cloudprovider.InstanceTypeOverhead{},
	}
}

func bound(claim corev1.PersistentVolumeClaim, volume string) *corev1.PersistentVolumeClaim {
	claim.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
	claim.Spec.VolumeName = volume
	return &claim
}

func claimOf(class string) corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "model", Namespace: namespace},
		Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: &class},
	}
}

// Karpenter asks for volumes with the namespace of the pod, which a real API server ignores.
func apiOf(objects ...client.Object) client.Client {
	get := func(ctx context.Context, api client.WithWatch, key client.ObjectKey, object client.Object, given ...client.GetOption) error {
		if _, isVolume := object.(*corev1.PersistentVolume); isVolume {
			key.Namespace = ""
		}
		return api.Get(ctx, key, object, given...)
	}
	return fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{Get: get}).Build()
}

// Asks Karpenter for the nodes that a pod needs, without any node there.
func solve(t *testing.T, found objects, pod *corev1.Pod, pools ...*karpenter.NodePool) scheduling.Results {
	t.Helper()
	ctx := (&options.Options{FeatureGates: options.DefaultFeatureGates()}).ToContext(context.Background())
	api := apiOf(&found.Volume, bound(claimOf("hearth"), found.Volume.Name))
	volumes := scheduling.NewVolumeTopology(api)
	if err := volumes.ValidatePersistentVolumeClaims(ctx, pod); err != nil {
		t.Fatal(err)
	}
	alternatives, err := volumes.GetRequirements(ctx, pod)
	if err != nil {
		t.Fatal(err)
	}
	offered := map[string][]*cloudprovider.InstanceType{}
	for _, pool := range pools {
		offered[pool.Name] = []*cloudprovider.InstanceType{instanceType("small", "4", 1), instanceType("large", "8", 2)}
	}
	var daemons []*corev1.Pod
	for _, set := range found.DaemonSets {
		daemons = append(daemons, podOf(set))
	}
	cluster := state.NewCluster(clock.RealClock{}, api, nil)
	pods := []*corev1.Pod{pod}
	topology, err := scheduling.NewTopology(ctx, api, cluster, nil, pools, offered, pods)
	if err != nil {
		t.Fatal(err)
	}
	scheduler := scheduling.NewScheduler(ctx, api, pools, cluster, nil, topology, offered, daemons,
		events.NewRecorder(record.NewFakeRecorder(100)), clock.RealClock{}, map[types.UID][]requirements.Requirements{pod.UID: alternatives}, nil)
	results, err := scheduler.Solve(ctx, pods)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

func TestKarpenterAddsTheFirstNodeOfAGroup(t *testing.T) {
	for _, pool := range []string{"gpu", "rest"} {
		results := solve(t, operatorObjects(t), reader("1"), nodePool("other"), nodePool(pool))
		if len(results.NewNodeClaims) != 1 || results.NewNodeClaims[0].NodePoolName != pool {
			t.Errorf("%s: %d new nodes, %v", pool, len(results.NewNodeClaims), results.PodErrors)
		}
	}
}

func TestKarpenterAddsNoNodeWithoutAgents(t *testing.T) {
	results := solve(t, operatorObjects(t), reader("1"), nodePool("other"))
	if len(results.NewNodeClaims) != 0 || len(results.PodErrors) != 1 {
		t.Errorf("%d new nodes, %v", len(results.NewNodeClaims), results.PodErrors)
	}
}

func TestKarpenterCountsAgentsAndHolders(t *testing.T) {
	results := solve(t, operatorObjects(t), reader("3600m"), nodePool("gpu"))
	if len(results.NewNodeClaims) != 1 {
		t.Fatalf("%v", results.PodErrors)
	}
	claim := results.NewNodeClaims[0]
	// An agent and a holder of the group gpu alone: 500m and 10m beside the pod, 1Gi and 16Mi beside the arena of 4Gi.
	if cpu := claim.Spec.Resources.Requests.Cpu(); cpu.String() != "4110m" {
		t.Errorf("the node has to have %s CPU", cpu)
	}
	if memory := claim.Spec.Resources.Requests.Memory(); memory.Cmp(resource.MustParse("5136Mi")) != 0 {
		t.Errorf("the node has to have %s of memory", memory)
	}
	for _, one := range claim.InstanceTypeOptions {
		if one.Name == "small" {
			t.Error("the pod would not fit beside its agent")
		}
	}
}

func TestKarpenterPassesOverPodsWithUnboundClaims(t *testing.T) {
	immediate := storagev1.VolumeBindingImmediate
	class := storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "hearth"}, VolumeBindingMode: &immediate}
	claim := claimOf("hearth")
	if scheduling.NewVolumeTopology(apiOf(&class, &claim)).ValidatePersistentVolumeClaims(context.Background(), reader("1")) == nil {
		t.Error("the operator need not bind claims before their first node is there")
	}
}

// Cluster Autoscaler asks the scheduler about a node with the labels and taints of a template.
func TestSchedulerOnTemplatesAndNodes(t *testing.T) {
	found := operatorObjects(t)
	type wanted struct{ daemons, volumes bool }
	cases := map[string]struct {
		labels map[string]string
		wanted wanted
	}{
		"template of the group":          {map[string]string{poolLabel: "gpu"}, wanted{true, true}},
		"template of another group":      {map[string]string{poolLabel: "rest"}, wanted{false, true}},
		"template of no group":           {map[string]string{poolLabel: "other"}, wanted{false, false}},
		"node with an agent":             {map[string]string{"cluster.csi.hearth.storage/models": "true", agentsLabel: "gpu"}, wanted{true, true}},
		"node that leaves":               {map[string]string{poolLabel: "gpu", agentsLabel: "gpu"}, wanted{true, false}},
		"node that has left":             {map[string]string{poolLabel: "gpu", agentsLabel: "None"}, wanted{false, false}},
		"node of another StorageCluster": {map[string]string{poolLabel: "gpu", "csi.hearth.storage/agent": "true"}, wanted{false, false}},
		"node of Fargate":                {map[string]string{poolLabel: "gpu", "eks.amazonaws.com/compute-type": "fargate"}, wanted{false, false}},
	}
	volumes, err := nodeaffinity.NewNodeSelector(found.Volume.Spec.NodeAffinity.Required)
	if err != nil {
		t.Fatal(err)
	}
	for name, one := range cases {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{corev1.LabelOSStable: "linux"}}}
		for key, value := range one.labels {
			node.Labels[key] = value
		}
		if volumes.Match(node) != one.wanted.volumes {
			t.Errorf("%s: volumes %t", name, !one.wanted.volumes)
		}
		for _, set := range found.DaemonSets {
			if set.Labels["hearth.storage/node-group"] != "gpu" {
				continue
			}
			matches, err := nodeaffinity.GetRequiredNodeAffinity(podOf(set)).Match(node)
			if err != nil || matches != one.wanted.daemons {
				t.Errorf("%s: %s %t, %v", name, set.Name, matches, err)
			}
		}
	}
}
