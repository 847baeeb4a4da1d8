// Functions of sub-groups, which AMD's driver has in a library of its own and libclc lacks: a sub-group is a wave.
__attribute__((always_inline, overloadable)) static inline float wave_broadcast(float value, uint lane) {
    return __builtin_bit_cast(float, __builtin_amdgcn_ds_bpermute((int)(lane * 4), __builtin_bit_cast(int, value)));
}
__attribute__((always_inline)) static inline uint wave_lane(void) {
#if __AMDGCN_WAVEFRONT_SIZE == 64
    return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0));
#else
    return __builtin_amdgcn_mbcnt_lo(~0u, 0);
#endif
}
#ifdef USES_SUB_GROUPS
#define sub_group_broadcast wave_broadcast
#define get_sub_group_local_id wave_lane
#define get_sub_group_id() ((uint)(get_local_id(1) * get_local_size(0) + get_local_id(0)) / __AMDGCN_WAVEFRONT_SIZE)
#endif
