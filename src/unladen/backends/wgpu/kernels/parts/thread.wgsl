// Which thread of its workgroup this is. Kernels take it as `who`.
struct Thread {
  @builtin(local_invocation_index) lane: u32,
#if SUBGROUPS
  @builtin(subgroup_id) subgroup: u32,
  @builtin(num_subgroups) n_subgroups: u32,
  @builtin(subgroup_invocation_id) in_subgroup: u32,
#end
}
